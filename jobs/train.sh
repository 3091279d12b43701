#!/usr/bin/env bash
# Trains a preset or config file under mpirun, on a machine without a queue; run again, it goes on. See train.slurm.
#
#   nohup jobs/train.sh [-n RANKS] ant-maxent-laptop --seed 3 >train.log &
#
# As many ranks as there are cores, unless -n says otherwise. `kill -USR1` of it stops and saves.
[ "${1:-}" != -n ] || { EES_RANKS=${2:?expected a number after -n} && shift 2; }
. "$(dirname "${BASH_SOURCE[0]}")/job.sh" || exit 2
train "$@"
