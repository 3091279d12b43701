# Sourced by the job scripts, with or without SLURM: starts ees-mpi under MPI, passes warnings on, ends what hangs, asks the
# run file (never mpirun's exit code) whether the run is done, and has the job run again if it is not.
#
# What a site may want to change, in the environment or in a file site.sh beside this one, which is read first:
#   EES_LAUNCH           the words that start the ranks, such as "srun --mpi=pmix"  [mpirun, with ULFM where it has it]
#   EES_RUNS             the folder for run files                                   [runs]
#   EES_MAX_RESTARTS     how often a job may be started again                       [20]
#   EES_QUIET_SECONDS    a run whose writer shows no sign of life for so long, from the start on, is ended   [900]
#   EES_GRACE_SECONDS    how long a run that was told to stop may take to save      [240]
#   EES_STEP_SECONDS     how long a command that is no training may take            [14400]
jobs=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# Before `set -u`: what sites write for logins often reads variables that are not set.
# shellcheck source=/dev/null
[ ! -r "$jobs/site.sh" ] || . "$jobs/site.sh"
set -uo pipefail

runs=${EES_RUNS:-runs}
max_restarts=${EES_MAX_RESTARTS:-20}
max_fruitless=3 # restarts of a job that fails before it has committed anything
restarts=${SLURM_RESTART_COUNT:-0}
ranks=${EES_RANKS:-} # without SLURM, which knows how many; all cores, if empty
child='' warned='' cancelled=''

say() { echo "job: $*"; }

leave() { # exit code, what to say
    say "$2" >&2
    exit "$1"
}

prepare() {
    [ -n "$(command -v ees-mpi)" ] || PATH=$(dirname "$jobs")/.venv/bin:$PATH
    [ -n "$(command -v ees-mpi)" ] || leave 2 "expected ees-mpi on the PATH, or in .venv beside jobs/; activate its \
environment before sbatch, or in $jobs/site.sh"
    # One thread a rank: the ranks are the parallelism.
    export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 BLIS_NUM_THREADS=1 NUMEXPR_NUM_THREADS=1
    if [ -z "${SLURM_JOB_ID:-}" ]; then # nobody counted: more ranks than cores are slow, but no mistake
        export PRTE_MCA_rmaps_default_mapping_policy=${PRTE_MCA_rmaps_default_mapping_policy:-:oversubscribe}
        export OMPI_MCA_rmaps_base_oversubscribe=1 # Open MPI 4
    fi
    mkdir -p "$runs" || exit 2
    # mpirun keeps a folder named after its process id there; one left by a killed mpirun would stop a later one.
    export TMPDIR="${TMPDIR:-/tmp}/ees-${SLURM_JOB_ID:-$$}-$restarts"
    mkdir -p "$TMPDIR" || exit 2
    trap clean EXIT
    trap 'warned=yes; pass_on "the time limit is near"' USR1
    trap 'cancelled=yes; pass_on "asked to end"' TERM INT
    if [ "$restarts" -gt "$max_restarts" ]; then
        leave 1 "started again $restarts times, more than EES_MAX_RESTARTS=$max_restarts; submit it anew to go on all the same"
    fi
    [ "$restarts" = 0 ] || say "started again: restart $restarts of at most $max_restarts"
}

cores() { # that this process may use, two threads of one counted once
    local physical
    physical=$(lscpu -p=core,socket 2>/dev/null | grep -v '^#' | sort -u | wc -l)
    [ "$physical" -gt 0 ] && [ "$physical" -lt "$(nproc)" ] && echo "$physical" || nproc
}

clean() {
    rm -rf "$TMPDIR"
    if [ "${SLURM_JOB_NUM_NODES:-1}" -gt 1 ]; then # the other nodes have one, too
        timeout 20 srun --overlap --ntasks-per-node=1 --ntasks="$SLURM_JOB_NUM_NODES" rm -rf "$TMPDIR" 2>/dev/null
    fi
}

pass_on() { # why. mpirun and srun hand USR1 on to all ranks; TERM would end mpirun itself, at once
    say "$1; $([ -n "$child" ] && echo "telling the ranks" || echo "nothing is running")"
    grace_ends=$((SECONDS + ${EES_GRACE_SECONDS:-240}))
    [ -z "$child" ] || kill -USR1 "$child" 2>/dev/null
}

launcher() { # "lasting": survive the loss of ranks, where mpirun can; prints the words, one a line
    if [ -n "${EES_LAUNCH:-}" ]; then
        printf '%s\n' $EES_LAUNCH # words, on purpose
        return
    fi
    # Not bound: where jobs share a node, mpirun would bind each job's ranks to the same first cores.
    printf '%s\n' mpirun --bind-to none
    [ -n "${SLURM_JOB_ID:-}" ] || printf '%s\n' -n "${ranks:-$(cores)}"
    [ "${1:-}" != lasting ] || [ "$(ft_support)" != yes ] || printf '%s\n' --with-ft ulfm
}

ft_support() { ompi_info --parsable 2>/dev/null | sed -n 's/^options:ft_mpi_support://p'; }

run_watched() { # seconds, file or "", command...: runs it; ends it if the file is not touched for so long, or by then
    local patience=$1 file=$2 seen quiet_since=$SECONDS
    shift 2
    [ -z "$warned$cancelled" ] || return 75 # told while nothing was running: no time to start anything
    seen=$(stat -c %i-%Y "$file" 2>/dev/null)
    "$@" &
    child=$!
    while kill -0 "$child" 2>/dev/null; do
        sleep 2 &
        wait -n "$child" $! # cut short by a signal that we trap
        [ "$seen" = "$(stat -c %i-%Y "$file" 2>/dev/null)" ] || quiet_since=$SECONDS
        seen=$(stat -c %i-%Y "$file" 2>/dev/null)
        if [ -n "$warned$cancelled" ] && [ $SECONDS -gt $grace_ends ]; then
            end_child "did not stop in ${EES_GRACE_SECONDS:-240} s"
        elif [ $((SECONDS - quiet_since)) -ge "$patience" ]; then
            end_child "showed no sign of life for $patience s: did a rank die before it could join the others?"
        fi
    done
    wait "$child"
    local code=$?
    child=''
    return $code
}

end_child() { # why
    say "ending the ranks: the run $1"
    kill -TERM "$child" 2>/dev/null
    local tries=20
    while kill -0 "$child" 2>/dev/null && [ $((tries -= 1)) -gt 0 ]; do sleep 1; done
    kill -KILL "$child" 2>/dev/null
}

fact() { # run file, name: what `info --json` says of it, or nothing
    [ ! -e "$1" ] || ees-mpi info "$1" --json 2>/dev/null | sed -n "s/.*\"$2\": \([a-z0-9]*\).*/\1/p"
}

default_name() { # preset or file, further words of `train`: where the run goes
    local source=$1 word before='' seed=''
    shift
    for word in "$@"; do
        case "$before $word" in
            "--out "*) echo "$word" && return ;;
            *" --out="*) echo "${word#--out=}" && return ;;
            "--seed "*) seed=$word ;;
            *" --seed="* | "--set run.seed="* | *" --set=run.seed="*) seed=${word##*=} ;;
        esac
        before=$word
    done
    [ -n "$seed" ] || seed=$(ees-mpi presets "$source" | sed -n 's/^ *seed *= *\([0-9]*\).*/\1/p' | head -n 1)
    source=${source##*/}
    echo "$runs/${source%.toml}-seed${seed:-0}.h5"
}

wanted() { # preset or file, words of `train`: how many generations the command asks for
    local word source=$1 found=''
    for word in "$@"; do
        case $word in run.generations=* | --set=run.generations=*) found=${word##*=} ;; esac
    done
    [ -n "$found" ] || found=$( ([ -r "$source" ] && cat "$source" || ees-mpi presets "$source") | awk '
        /^\[/ { section = $1 } section == "[run]" && $1 == "generations" { sub(/.*= */, ""); print $1; exit }')
    echo "${found//_/}"
}

is_done() { # run file, generations: whether it has them, whatever an earlier command asked of it
    [ "$(fact "$1" complete)" = true ] && [ "$(fact "$1" generations)" -ge "${2:-0}" ]
}

train() { # preset or file, words of `ees-mpi train`: returns when the run is complete; otherwise the job runs again, or ends
    [ $# -gt 0 ] && [ "${1#-}" = "$1" ] || leave 2 "expected a preset or a config file first (\`ees-mpi presets\` lists them)"
    local out begun reached code words
    [ -n "${SLURM_JOB_ID:-}" ] || restarts=0
    out=$(default_name "$@")
    mapfile -t words < <(launcher lasting)
    while true; do
        begun=$(fact "$out" generations)
        run_watched "${EES_QUIET_SECONDS:-900}" "$(readlink -f "$out").lock" "${words[@]}" ees-mpi train "$@" --out "$out" --resume
        code=$?
        [ $code != 0 ] || ! is_done "$out" "$(wanted "$@")" || { rm -f "$out.fruitless" && return 0; }
        reached=$(fact "$out" generations)
        again_or_leave $code "$out" "$out: ${reached:-no} generations" "$([ "$reached" = "$begun" ] || echo yes)"
    done
}

step() { # the file that it makes, command...: runs an ees-mpi command under MPI, unless its file is there already
    local out=$1 code words
    shift
    [ -n "${SLURM_JOB_ID:-}" ] || restarts=0
    mapfile -t words < <(launcher)
    until [ -e "$out" ]; do
        run_watched "${EES_STEP_SECONDS:-14400}" "" "${words[@]}" ees-mpi "$@" --out "$out"
        code=$?
        [ -e "$out" ] || again_or_leave $code "$out" "$out is not there yet" ''
    done
    rm -f "$out.fruitless"
}

train_and_adapt() { # seed, preset or file, words of `train`
    local out direction
    train "${@:2}" --seed "$1"
    out=$(default_name "${@:2}" --seed "$1")
    for direction in left right; do
        step "${out%.h5}-adapt-$direction.h5" adapt "$out" --direction $direction
    done
}

take_options() { # the words of a script without a queue: sets `ranks` and `seeds`, leaves the others in `rest`
    seeds=0-11
    while [ "${1:-}" = -n ] || [ "${1:-}" = --seeds ]; do
        case "$1 ${2:-}" in
            "-n "[1-9]*)
                ranks=$2
                [ -z "${EES_LAUNCH:-}${SLURM_JOB_ID:-}" ] || say "-n $2 is not used: EES_LAUNCH or SLURM says how many"
                ;;
            "--seeds "[0-9]*) seeds=$2 ;;
            *) leave 2 "expected a number after -n, and FIRST-LAST after --seeds" ;;
        esac
        shift 2
    done
    rest=("$@")
}

again_or_leave() { # exit code, the file, where things stand, whether anything was committed
    local fruitless
    # A file that somebody still holds, a writer on a lost node perhaps, is worth another try; one that is damaged is not.
    [ "$1" != 2 ] && { [ "$1" != 3 ] || [ -e "$(readlink -f "$2").lock" ]; } || leave "$1" "this cannot work, see above; not started again"
    [ -z "$cancelled" ] || leave 75 "$3; stopped. The same command goes on with it"
    if [ -n "$4" ] || [ "$1" = 75 ]; then
        rm -f "$2.fruitless"
    else # counted beside the file: restarts for other reasons do not matter
        fruitless=$(($(cat "$2.fruitless" 2>/dev/null || echo 0) + 1))
        echo $fruitless >"$2.fruitless"
        if [ $fruitless -gt $max_fruitless ]; then
            rm -f "$2.fruitless"
            leave 1 "$3; failed (exit code $1) without getting on, for the ${fruitless}. time; see above, and try: ees-mpi doctor"
        fi
    fi
    [ "$restarts" -lt "$max_restarts" ] || leave 1 "$3; not started again: EES_MAX_RESTARTS=$max_restarts"
    if [ -z "${SLURM_JOB_ID:-}" ]; then
        [ -z "$warned" ] && [ "$1" != 75 ] || leave 75 "$3; stopped. The same command goes on with it"
        restarts=$((restarts + 1))
        say "$3, exit code $1; starting again (${restarts}. time of at most $max_restarts)"
        return
    fi
    requeue "$3, exit code $1"
}

requeue() { # where things stand
    # A task of an array goes by the array's number and its own: its job id alone may stand for the whole array.
    local id=$SLURM_JOB_ID
    [ -z "${SLURM_ARRAY_TASK_ID:-}" ] || id=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID
    say "$1; back into the queue"
    clean
    trap - EXIT
    trap '' TERM # with which SLURM ends this script
    scontrol requeue "$id" || leave 75 "could not be put back into the queue; submit it again, it goes on"
    exit 0
}

prepare
