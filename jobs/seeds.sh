#!/usr/bin/env bash
# Trains a preset or config file with 12 seeds, one after the other, each on all cores; with -j K, K at a time. Run it again to
# continue. See seeds.slurm.
#
#   nohup jobs/seeds.sh [-n RANKS] [-j K] [--seeds 0-11] cheetah-maxent-laptop >seeds.log &
. "$(dirname "${BASH_SOURCE[0]}")/job.sh" || exit 2
take_options "$@"
if [ -n "$parallel" ]; then
    sweep "$parallel" "${rest[@]}" --seeds "$seeds"
    exit
fi
for seed in $(seq "${seeds%-*}" "${seeds#*-}"); do
    train "${rest[@]}" --seed "$seed"
done
