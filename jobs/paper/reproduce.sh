#!/usr/bin/env bash
# All experiments of the paper on one machine without a queue. It can be cut at any time. Run it again to continue. `ees-mpi plan`
# estimates the cost of one run; --scale 0.1 costs about a hundredth. See reproduce.slurm, and docs/reproduce.md for the plan.
#
#   nohup jobs/paper/reproduce.sh --scale 0.01 >reproduce.log &
#   jobs/paper/reproduce.sh --engine mujoco -j 4 --minutes 24     # the plan, on a GPU that is lent for half an hour
#   jobs/paper/reproduce.sh --engine mujoco --status              # prints the finished and the missing work, and the time that it will take
#
# Options: those of experiments.sh (--robots, --engine, --scale, --seeds, --runs, --without-maml), -n RANKS (of all runs together),
# -j K to run K at a time, --stage NAME to run one stage only, --minutes M to stop after M minutes (exit code 75 if work is left),
# --status.
. "$(dirname "${BASH_SOURCE[0]}")/experiments.sh" || exit 2
only='' minutes='' status='' parallel=''
while [ $# -gt 0 ]; do
    taken=2
    case $1 in
        -n) EES_RANKS=$2 ;;
        -j) parallel=$2 ;;
        --stage) only=$2 ;;
        --minutes) minutes=$2 ;;
        --status) status=yes taken=1 ;;
        *) parse "$@" || { echo "job: unknown option $1; see the top of reproduce.sh" >&2 && exit 2; } ;;
    esac
    shift $taken 2>/dev/null || { echo "job: expected a value after $1" >&2 && exit 2; }
done
check_options
[[ $minutes =~ ^([1-9][0-9]*)?$ ]] || { echo "job: --minutes $minutes: expected a whole number" >&2 && exit 2; }
[[ $parallel =~ ^([1-9][0-9]*)?$ ]] || { echo "job: -j $parallel: expected a number of runs" >&2 && exit 2; }
[ -z "$minutes" ] || ends=$((SECONDS + 60 * minutes))
. "$(dirname "${BASH_SOURCE[0]}")/../job.sh" && . "$jobs/paper/results.sh" || exit 2
[ "$scale" != plan ] || collected=$jobs/paper/results # the runs of the plan that other machines have made
mapfile -t list < <(work)
do_all() {
    local line stage task
    for line in "${list[@]}"; do
        read -r stage scale seeds task <<<"$line"
        [ "$stage" = "${only:-$stage}" ] || continue
        [ -n "$status$parallel" ] || say "$stage: $task$([ "$scale" = 1 ] || echo ", scale $scale")"
        [ -z "$minutes" ] || [ $SECONDS -lt $((ends - 30)) ] || leave 75 "--minutes $minutes are over. Run the same command again to continue"
        $task
    done
}
commands() { # prints the commands of all tasks, for worklist.py
    train() { echo "$stage train $*"; }
    step() { echo "$stage step $*"; }
    figures() { :; }
    statistics() { :; }
    collecting() { :; }
    limit() { :; }
    do_all
}
if [ -n "$status" ]; then
    commands | PYTHONPATH=$jobs${PYTHONPATH:+:$PYTHONPATH} python3 "$jobs/paper/status.py" ${collected:+"$collected"}
elif [ -n "${parallel:=${planned:+1}}" ]; then
    commands >"$TMPDIR/list" || exit
    side_by_side "$parallel" ${minutes:+--minutes "$minutes"} ${collected:+--results "$collected"} --collect "$EES_RUNS/results"
else
    do_all
fi
