#!/usr/bin/env bash
# Trains a preset or config file under mpirun, on a machine without a queue. Run it again to continue. See train.slurm.
#
#   nohup jobs/train.sh [-n RANKS] ant-maxent-laptop --seed 3 >train.log &
#
# One rank per core, unless -n gives another number. `kill -USR1 PID` of this script stops the run and saves its state.
. "$(dirname "${BASH_SOURCE[0]}")/job.sh" || exit 2
take_options "$@"
train "${rest[@]}"
