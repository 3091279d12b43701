#!/usr/bin/env bash
# All experiments of the paper on one machine without a queue, one run after the other, each on all cores. Run it again to continue.
# `ees-mpi plan` estimates the cost of one run at the paper's scale; --scale S costs about S x S of it. See reproduce.slurm.
#
#   nohup jobs/reproduce.sh --scale 0.01 >reproduce.log &
#
# Options: those of experiments.sh (--scale, --seeds, --runs, --without-maml), -n RANKS, and --stage NAME to run one stage only.
. "$(dirname "${BASH_SOURCE[0]}")/experiments.sh" || exit 2
only=''
while [ $# -gt 0 ]; do
    taken=2
    case $1 in
        -n) EES_RANKS=$2 ;;
        --stage) only=$2 ;;
        *) parse "$@" || { echo "job: unknown option $1; see the top of reproduce.sh" >&2 && exit 2; } ;;
    esac
    shift $taken 2>/dev/null || { echo "job: expected a value after $1" >&2 && exit 2; }
done
check_options
jobs=$(dirname "${BASH_SOURCE[0]}")
. "$jobs/job.sh" && . "$jobs/results.sh" || exit 2
for stage in ${only:-"${stages[@]}"}; do
    mapfile -t list < <(tasks "$stage")
    for task in "${list[@]}"; do
        say "$stage: $task"
        $task
    done
done
