#!/usr/bin/env bash
# Trains a sweep, every combination of values and seeds, on a machine without a queue, K runs at a time. Run it again to continue.
# See sweep.slurm.
#
#   nohup jobs/sweep.sh [-n RANKS] [-j K] cheetah-maxent --set population.std=0.01,0.02 --seeds 0-5 >sweep.log &
. "$(dirname "${BASH_SOURCE[0]}")/job.sh" || exit 2
take_options "$@"
sweep "${parallel:-1}" "${rest[@]}"
