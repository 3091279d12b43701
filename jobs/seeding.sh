#!/usr/bin/env bash
# Does a trained mean speed up further evolution? Runs standard ES towards +x with N = 200 from the trained means of jobs/results/
# and from random means, with four seeds. The cheetah has a trained mean of each seed, the ant only those of seed 0.
# Run it again to continue. On two cores the cheetah takes about an hour, the ant longer.
#   jobs/seeding.sh cheetah|ant [FOLDER]
set -euo pipefail
robot=${1:-} folder=${2:-runs/seeding}
case $robot in cheetah | ant) ;; *) echo "seeding: got '$robot'; expected cheetah or ant" >&2 && exit 2 ;; esac
results=$(dirname "$0")/results
[ -d "$results" ] || { echo "seeding: $results with the trained means is missing; run this in a checkout" >&2 && exit 2; }
mkdir -p "$folder"
small=(--set population.size=200 --set noise.size=33554432 --set run.generations=21 --set task.device=cpu)
for seed in 0 1 2 3; do
    train=(mpirun -n 2 ees-mpi train "mujoco-$robot-es" --seed $seed "${small[@]}" --resume)
    "${train[@]}" --out "$folder/mujoco-$robot-adapt-n200-seed$seed.h5"
    for algorithm in maxvar maxent; do
        trained=$results/mujoco-$robot-$algorithm-short-seed$([ "$robot" = cheetah ] && echo $seed || echo 0)/policy.npz
        "${train[@]}" --from "$trained" --out "$folder/mujoco-$robot-$algorithm-further-n200-seed$seed.h5"
    done
done
ees-mpi figure adaptation "$folder"/mujoco-"$robot"-{adapt,maxvar-further,maxent-further}-n200-seed*.h5 -o "$folder/$robot.png"
ees-mpi compare --metric distance_after "$folder"/mujoco-"$robot"-*-further-n200-seed*.h5 --against "$folder"/mujoco-"$robot"-adapt-n200-seed*.h5
