#!/usr/bin/env bash
# Does a trained mean speed up further evolution? Runs standard ES towards +x with N = 200 on Gymnasium's robots, on CPU cores, from the
# trained means of jobs/paper/results/ and from random means, with four seeds. gentle: first steps as `train --from` makes them; fresh: full
# first steps of Adam. Run it again to continue. On two cores the cheetah takes about an hour, the ant longer.
#   jobs/paper/seeding.sh [-n RANKS] [-j K] cheetah|ant [gentle|fresh]
. "$(dirname "${BASH_SOURCE[0]}")/../job.sh" || exit 2
take_options "$@"
robot=${rest[0]:-} rule=${rest[1]:-gentle}
case $robot,$rule in
    cheetah,gentle | ant,gentle) first=false named=-gentle ;;
    cheetah,fresh | ant,fresh) first=true named='' ;;
    *) leave 2 "got '$robot $rule'; expected cheetah or ant, then gentle or fresh" ;;
esac
[ -d "$jobs/paper/results" ] || leave 2 "$jobs/paper/results with the trained means is missing; run this in a checkout"
run() { # name of the run, seed, more options: prints a line of the list
    echo "seeding train mujoco-$robot-es --seed $2 --set population.size=200 --set noise.size=33554432 --set run.generations=21" \
        "--set task.device=cpu --set optimizer.correct_first=$first --out $runs/mujoco-$robot-$1$named-n200-seed$2.h5 ${*:3}"
}
for seed in 0 1 2 3; do
    run adapt $seed
    for algorithm in maxvar maxent; do
        run $algorithm-further $seed --from "$jobs/paper/results/mujoco-$robot-$algorithm-short-seed$seed/policy.npz"
    done
done >"$TMPDIR/list"
side_by_side "${parallel:-1}" --collect "$runs/results" || exit
ees-mpi compare --metric distance_after "$runs"/mujoco-"$robot"-*-further"$named"-n200-seed*.h5 \
    --against "$runs"/mujoco-"$robot"-adapt"$named"-n200-seed*.h5
