#!/usr/bin/env bash
# Does a trained mean speed up further evolution? Runs standard ES towards +x with N = 200 on Gymnasium's robots, from the trained
# means of jobs/results/ and from random means, with four seeds. gentle: first steps as `train --from` makes them; fresh: full first
# steps of Adam. Run it again to continue. On two cores the cheetah takes about an hour, the ant longer.
#   jobs/seeding.sh cheetah|ant [gentle|fresh] [FOLDER]
set -euo pipefail
robot=${1:-} rule=${2:-gentle} folder=${3:-runs/seeding}
case $robot,$rule in
    cheetah,gentle | ant,gentle) first=false named=-gentle ;;
    cheetah,fresh | ant,fresh) first=true named='' ;;
    *) echo "seeding: got '$robot $rule'; expected cheetah or ant, then gentle or fresh" >&2 && exit 2 ;;
esac
results=$(dirname "$0")/results
[ -d "$results" ] || { echo "seeding: $results with the trained means is missing; run this in a checkout" >&2 && exit 2; }
mkdir -p "$folder"
small=(--set population.size=200 --set noise.size=33554432 --set run.generations=21 --set task.device=cpu --set optimizer.correct_first=$first)
for seed in 0 1 2 3; do
    train=(mpirun -n "${RANKS:-2}" ees-mpi train "mujoco-$robot-es" --seed $seed "${small[@]}" --resume)
    "${train[@]}" --out "$folder/mujoco-$robot-adapt$named-n200-seed$seed.h5"
    for algorithm in maxvar maxent; do
        "${train[@]}" --from "$results/mujoco-$robot-$algorithm-short-seed$seed/policy.npz" \
            --out "$folder/mujoco-$robot-$algorithm-further$named-n200-seed$seed.h5"
    done
done
ees-mpi figure adaptation "$folder"/mujoco-"$robot"-{adapt,maxvar-further,maxent-further}"$named"-n200-seed*.h5 -o "$folder/$robot$named.png"
ees-mpi compare --metric distance_after "$folder"/mujoco-"$robot"-*-further"$named"-n200-seed*.h5 \
    --against "$folder"/mujoco-"$robot"-adapt"$named"-n200-seed*.h5
