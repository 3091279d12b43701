#!/usr/bin/env bash
# Installs the wheel of ees_mpi into an image of Debian 12, with Debian's Open MPI and an mpi4py that is built for it.
# Containerfile and Apptainer.def call it:   container.sh FOLDER-WITH-THE-WHEEL EXTRAS
set -euo pipefail
wheel=$(echo "$1"/ees_mpi-*.whl)
[ -f "$wheel" ] || { echo "container.sh: expected one wheel of ees_mpi in $1 (pip wheel --no-deps -w dist .)" >&2 && exit 2; }
tools=(g++ libopenmpi-dev python3-dev) # needed to build mpi4py, and pybullet where it has no wheel
export DEBIAN_FRONTEND=noninteractive
apt-get update -q
apt-get install -q -y --no-install-recommends ca-certificates openmpi-bin python3 python3-venv "${tools[@]}"
python3 -m venv /opt/ees_mpi
CFLAGS=-O0 /opt/ees_mpi/bin/pip install -q --no-cache-dir --no-binary mpi4py 'mpi4py>=4.1' # it only passes calls on
/opt/ees_mpi/bin/pip install -q --no-cache-dir "${wheel}[$2]"
/opt/ees_mpi/bin/ees-mpi --version
apt-get purge -q -y --auto-remove "${tools[@]}"
rm -rf /var/lib/apt/lists/* "$1"
