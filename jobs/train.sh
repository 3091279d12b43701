#!/usr/bin/env bash
# Trains a preset or config file under mpirun, on a machine without a queue; run again, it goes on. See train.slurm.
#
#   nohup jobs/train.sh [-n RANKS] ant-maxent-laptop --seed 3 >train.log &
#
# As many ranks as there are cores, unless -n says otherwise. `kill -USR1` of it stops and saves.
. "$(dirname "${BASH_SOURCE[0]}")/job.sh" || exit 2
take_options "$@"
train "${rest[@]}"
