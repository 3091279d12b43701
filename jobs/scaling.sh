#!/usr/bin/env bash
# Measures strong and weak scaling on a machine without a queue: 1, 2, 4, ... ranks. Run it again to continue. See scaling.slurm.
#
#   jobs/scaling.sh [-n RANKS] [--engine mujoco] [--repeat 3] [--minutes 10]
#
# One rank per core, unless -n gives another number. `jobs/scaling.sh --help` lists the options.
. "$(dirname "${BASH_SOURCE[0]}")/job.sh" || exit 2
scaling "$@"
