#!/usr/bin/env bash
# Trains MAML on a machine without a queue, with 12 seeds, one after the other, and adapts each run to the left and to the
# right. Run it again to continue. See maml.slurm.
#
#   nohup jobs/maml.sh [-n RANKS] [--seeds 0-11] [cheetah-maml-laptop] >maml.log &
. "$(dirname "${BASH_SOURCE[0]}")/job.sh" || exit 2
take_options "$@"
set -- "${rest[@]}"
[ $# -gt 0 ] || set -- cheetah-maml-laptop
for seed in $(seq "${seeds%-*}" "${seeds#*-}"); do
    train_and_adapt "$seed" "$@"
done
