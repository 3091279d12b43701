# Sourced by the job scripts, with or without SLURM. It starts ees-mpi under MPI, passes signals on to the ranks, ends a run that
# hangs, and starts the job again until the run file is complete. It asks the run file, never the exit code of mpirun.
#
# A site can set these variables, in the environment or in a file site.sh beside this one, which is read first:
#   EES_LAUNCH           the command that starts the ranks, such as "srun --mpi=pmix"   [mpirun, with ULFM if it has it]
#   EES_BIND             "core": mpirun binds each rank to a core, spread over the NUMA domains; "none": it does not
#                        [core if SLURM gave whole nodes to the job and each rank has a core, otherwise none]
#   EES_RUNS             the folder for run files                                       [runs]
#   EES_MAX_RESTARTS     the number of times that a job is started again                [20]
#   EES_QUIET_SECONDS    a run whose writer gives no sign of life for this time is ended; counts from the start   [900]
#   EES_GRACE_SECONDS    the time that a run gets to save its state after a stop request   [240]
#   EES_STEP_SECONDS     the time limit of adapt and sample                             [14400]
jobs=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# Before `set -u`: login files of sites often read variables that are not set.
# shellcheck source=/dev/null
[ ! -r "$jobs/site.sh" ] || . "$jobs/site.sh"
set -uo pipefail

runs=${EES_RUNS:-runs}
max_restarts=${EES_MAX_RESTARTS:-20}
max_fruitless=3 # restarts of a job that fails without a new commit
restarts=${SLURM_RESTART_COUNT:-0}
ranks=${EES_RANKS:-} # used without SLURM; empty: one per core
child='' warned='' cancelled=''

say() { echo "job: $*"; }

leave() { # exit code, message
    say "$2" >&2
    exit "$1"
}

prepare() {
    [ -n "$(command -v ees-mpi)" ] || PATH=$(dirname "$jobs")/.venv/bin:$PATH
    [ -n "$(command -v ees-mpi)" ] || python3 -c 'import ees_mpi' 2>/dev/null || leave 2 "expected ees-mpi on the PATH, in .venv \
beside jobs/, or as a module of python3; activate its environment before sbatch, or in $jobs/site.sh"
    [[ ${EES_BIND:-none} =~ ^(core|none)$ ]] || leave 2 "EES_BIND=$EES_BIND: expected core or none"
    # One thread per rank: the ranks already use all cores.
    export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 BLIS_NUM_THREADS=1 NUMEXPR_NUM_THREADS=1
    if [ -z "${SLURM_JOB_ID:-}" ]; then # more ranks than cores are slow, but not an error
        export PRTE_MCA_rmaps_default_mapping_policy=${PRTE_MCA_rmaps_default_mapping_policy:-:oversubscribe}
        export OMPI_MCA_rmaps_base_oversubscribe=1 # Open MPI 4
    fi
    mkdir -p "$runs" || exit 2
    # mpirun keeps a folder named after its process id there. A folder left by a killed mpirun would stop a later one.
    export EES_TMPDIR=${EES_TMPDIR:-${TMPDIR:-/tmp}} # a job that this one starts makes its folder beside this one
    export TMPDIR="$EES_TMPDIR/ees-${SLURM_JOB_ID:-$$}-$restarts"
    mkdir -p "$TMPDIR" || exit 2
    if [ -z "$(command -v ees-mpi)" ]; then # the package is only on PYTHONPATH
        printf '#!/bin/sh\nexec python3 -m ees_mpi "$@"\n' >"$TMPDIR/ees-mpi" && chmod +x "$TMPDIR/ees-mpi" || exit 2
        export PATH="$TMPDIR:$PATH"
    fi
    trap clean EXIT
    trap 'warned=yes; pass_on "the time limit is near"' USR1
    trap 'cancelled=yes; pass_on "the job was asked to end"' TERM INT
    if [ "$restarts" -gt "$max_restarts" ]; then
        leave 1 "started again $restarts times, more than EES_MAX_RESTARTS=$max_restarts; submit the job again to continue"
    fi
    [ "$restarts" = 0 ] || say "started again: restart $restarts of at most $max_restarts"
}

cores() { # prints the number of cores that this process may use; two threads of a core count once
    local physical usable
    usable=$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc) # nproc obeys them, and each rank has one thread
    physical=$(lscpu -p=core,socket 2>/dev/null | grep -v '^#' | sort -u | wc -l)
    [ "$physical" -gt 0 ] && [ "$physical" -lt "$usable" ] && echo "$physical" || echo "$usable"
}

clean() {
    remove_segments
    rm -rf "$TMPDIR"
    if [ "${SLURM_JOB_NUM_NODES:-1}" -gt 1 ]; then # the other nodes have the folder, too
        timeout 20 srun --overlap --ntasks-per-node=1 --ntasks="$SLURM_JOB_NUM_NODES" rm -rf "$TMPDIR" 2>/dev/null
    fi
}

remove_segments() { # Open MPI's shared memory of killed ranks: newer than this job, and used by no process
    local segment
    for segment in /dev/shm/sm_segment.*."$(id -u)".* /dev/shm/vader_segment.*."$(id -u)".*; do
        [ -O "$segment" ] && [ "$segment" -nt "$TMPDIR" ] || continue
        grep -qsF "$segment" /proc/[0-9]*/maps || rm -f "$segment"
    done
}

pass_on() { # reason. mpirun and srun pass USR1 on to all ranks; TERM would end mpirun itself at once
    say "$1; $([ -n "$child" ] && echo "asking the ranks to stop" || echo "no ranks are running")"
    grace_ends=$((SECONDS + ${EES_GRACE_SECONDS:-240}))
    [ -z "$child" ] || kill -USR1 "$child" 2>/dev/null
}

launcher() { # "lasting": survive lost ranks, if mpirun can; ranks, if not all. Prints the words of the command, one per line
    local count=${2:-}
    if [ -n "${EES_LAUNCH:-}" ]; then
        printf '%s\n' $EES_LAUNCH ${count:+-n "$count"} # split into words on purpose
        return
    fi
    [ -n "${SLURM_JOB_ID:-}" ] || count=${count:-${ranks:-$(cores)}}
    printf '%s\n' mpirun $(binding) ${count:+-n "$count"} # several words
    [ "${1:-}" != lasting ] || [ "$(ft_support)" != yes ] || printf '%s\n' --with-ft ulfm
}

binding() { # prints the options of mpirun that bind the ranks
    # If jobs share a node, mpirun would bind the ranks of each job to the same first cores.
    case ${EES_BIND:-$(whole_nodes && echo core || echo none)} in
        core) echo --map-by numa --bind-to core ;;
        *) echo --bind-to none ;;
    esac
}

whole_nodes() { # whether SLURM gave all CPUs of its nodes to this job, and no node has more ranks than cores
    local all
    [ -n "${SLURM_JOB_NODELIST:-}" ] || return 1
    all=$(sinfo -h -N -n "$SLURM_JOB_NODELIST" -o '%N %c' 2>/dev/null | sort -u | awk '{ n += $2 } END { print n + 0 }')
    [ "$all" -gt 0 ] && [ "$(counts "${SLURM_JOB_CPUS_PER_NODE:-0}" | awk '{ n += $1 } END { print n + 0 }')" = "$all" ] \
        && [ "$(counts "${SLURM_TASKS_PER_NODE:-1}" | sort -n | tail -n 1)" -le "$(cores)" ]
}

counts() { # SLURM's list such as 40(x2),8: prints one number for each node
    local part count
    for part in ${1//,/ }; do
        count=${part#*x}
        for _ in $(seq "$([ "$count" = "$part" ] && echo 1 || echo "${count%)}")"); do echo "${part%%(*}"; done
    done
}

ft_support() { ompi_info --parsable 2>/dev/null | sed -n 's/^options:ft_mpi_support://p'; }

run_watched() { # seconds, file or "", command...: runs the command; ends it when the file has not changed for these seconds
    local patience=$1 file=$2 seen quiet_since=$SECONDS
    shift 2
    [ -z "$warned$cancelled" ] || return 75 # the stop request came while nothing was running
    seen=$(stat -c %i-%Y "$file" 2>/dev/null)
    "$@" &
    child=$!
    while kill -0 "$child" 2>/dev/null; do
        sleep 2 &
        wait -n "$child" $! # a trapped signal ends the wait early
        [ "$seen" = "$(stat -c %i-%Y "$file" 2>/dev/null)" ] || quiet_since=$SECONDS
        seen=$(stat -c %i-%Y "$file" 2>/dev/null)
        if [ -n "$warned$cancelled" ] && [ $SECONDS -gt $grace_ends ]; then
            end_child "did not stop within ${EES_GRACE_SECONDS:-240} s"
        elif [ $((SECONDS - quiet_since)) -ge "$patience" ]; then
            end_child "gave no sign of life for $patience s; perhaps a rank died before MPI had started"
        fi
    done
    wait "$child"
    local code=$?
    child=''
    return $code
}

end_child() { # reason
    say "ending the ranks: the run $1"
    kill -TERM "$child" 2>/dev/null
    local tries=20
    while kill -0 "$child" 2>/dev/null && [ $((tries -= 1)) -gt 0 ]; do sleep 1; done
    kill -KILL "$child" 2>/dev/null
}

value_of() { # name: prints this entry of the JSON object on standard input
    python3 -c 'import json, sys
value = json.load(sys.stdin)[sys.argv[1]]
print(value if isinstance(value, str) else json.dumps(value))' "$1"
}

fact() { # run file, name: prints this entry of `ees-mpi info --json`; nothing if the file cannot be read
    local facts
    [ ! -e "$1" ] || ! facts=$(ees-mpi info "$1" --json 2>/dev/null) || value_of "$2" <<<"$facts"
}

sort_words() { # words of `ees-mpi train`: sets `swept` to its settings and seeds, for `ees-mpi config`, and `others` to the rest
    swept=() others=()
    while [ $# -gt 0 ]; do
        case $1 in
            --set | --seeds) swept+=("$1" "${@:2:1}") && shift ;;
            --seed) swept+=(--seeds "${@:2:1}") && shift ;;
            --set=* | --seeds=*) swept+=("$1") ;;
            --seed=*) swept+=(--seeds "${1#--seed=}") ;;
            *) others+=("$1") ;;
        esac
        shift || break # an option without its value: `ees-mpi config` reports it
    done
}

read_runs() { # preset or file, words of `ees-mpi train`: sets `config` to its runs as JSON, one per line, and `others`
    [ $# -gt 0 ] && [ "${1#-}" = "$1" ] || leave 2 "expected a preset or a config file first (\`ees-mpi presets\` lists them)"
    local code name=${1##*/}
    sort_words "${@:2}"
    until config=$(ees-mpi config "$1" "${swept[@]}" --runs --json); do
        code=$?
        again_or_leave $code "$runs/${name%.toml}-config" "the config of $1 could not be read" ''
    done
    rm -f "$runs/${name%.toml}-config.fruitless"
}

read_sweep() { # preset or file, words of `ees-mpi train`: sets `members` to the words of each run, joined by tabs, and `others`
    read_runs "$@"
    mapfile -t members < <(python3 -c 'import json, sys
for run in sys.stdin: print(*json.loads(run)["words"], sep="\t")' <<<"$config")
}

run_file() { # words of `ees-mpi train`: prints the path of the run file; needs `config`
    local word before='' out=''
    for word in "$@"; do
        case "$before $word" in
            "--out "* | *" --out="*) out=${word#--out=} ;;
        esac
        before=$word
    done
    echo "${out:-$runs/$(value_of file <<<"$config")}"
}

is_done() { # run file, generations: whether it is complete and has that many; an earlier command may have asked for fewer
    [ "$(fact "$1" complete)" = true ] && [ "$(fact "$1" generations)" -ge "${2:-0}" ]
}

train() { # preset or file, words of `ees-mpi train`: returns if the run is complete; otherwise the job starts again or ends
    local out wanted begun reached code words
    [ -n "${SLURM_JOB_ID:-}" ] || restarts=0
    read_runs "$@"
    [ "$(wc -l <<<"$config")" = 1 ] || leave 2 "several values or seeds make a sweep: bash jobs/sweep.slurm, or mpirun ees-mpi train"
    out=$(run_file "$@") wanted=$(value_of generations <<<"$config")
    mapfile -t words < <(launcher lasting)
    while true; do
        begun=$(fact "$out" generations)
        run_watched "${EES_QUIET_SECONDS:-900}" "$(readlink -f "$out").lock" "${words[@]}" ees-mpi train "$@" --out "$out" --resume
        code=$?
        [ $code != 0 ] || ! is_done "$out" "$wanted" || { rm -f "$out.fruitless" && return 0; }
        reached=$(fact "$out" generations)
        again_or_leave $code "$out" "$out: ${reached:-no} generations" "$([ "${reached:-0}" = "${begun:-0}" ] || echo yes)"
    done
}

step() { # output file, command...: runs an ees-mpi command under MPI on a run of this script, unless its output exists
    local out=$1 code words
    shift
    [ -n "${SLURM_JOB_ID:-}" ] || restarts=0
    mapfile -t words < <(launcher)
    until [ -e "$out" ]; do
        run_watched "${EES_STEP_SECONDS:-14400}" "" "${words[@]}" ees-mpi "$@" --out "$out" --trust
        code=$?
        [ -e "$out" ] || again_or_leave $code "$out" "$out does not exist yet" ''
    done
    rm -f "$out.fruitless"
}

train_and_adapt() { # seed, preset or file, words of `train`
    local out direction
    train "${@:2}" --seed "$1"
    out=$(run_file "${@:2}" --seed "$1")
    for direction in left right; do
        step "${out%.h5}-adapt-$direction.h5" adapt "$out" --direction $direction
    done
}

share() { # number of runs at a time: prints the number of ranks of each
    local all=${ranks:-$(cores)}
    echo $((all / $1 > 0 ? all / $1 : 1))
}

side_by_side() { # runs at a time, more options of side_by_side.py: does the work of the list $TMPDIR/list; passes signals on to it
    run_watched 100000000 "" python3 "$jobs/side_by_side.py" "$TMPDIR/list" -j "$1" --ranks "$(share "$1")" "${@:2}"
}

sweep() { # runs at a time, preset or file, words of `ees-mpi train`: trains the runs of a sweep
    read_runs "${@:2}"
    python3 -c 'import json, shlex, sys
runs, preset, *others = sys.argv[1:]
for line in sys.stdin:
    run = json.loads(line)
    print(shlex.join(["runs", "train", preset, *others, *run["words"], "--out", runs + "/" + run["file"]]))' \
        "$runs" "$2" "${others[@]}" <<<"$config" >"$TMPDIR/list" || exit 2
    side_by_side "$1"
}

scaling() { # words of scaling.py: measures on up to all ranks of this job, or one for each core
    local all each
    mapfile -t each < <(counts "${SLURM_TASKS_PER_NODE:-${ranks:-$(cores)}}")
    all=$((${each[*]/%/+} 0))
    run_watched 100000000 "" python3 "$jobs/scaling.py" -n "$all" --per-node "${each[0]}" \
        --launch "$(launcher '' '{ranks}' | tr '\n' ' ')" "$@"
}

take_options() { # words of a script without a queue: sets `ranks`, `parallel`, `seeds`, and `rest` to the other words
    seeds=0-11 parallel=''
    while [ "${1:-}" = -n ] || [ "${1:-}" = -j ] || [ "${1:-}" = --seeds ]; do
        case "$1 ${2:-}" in
            "-j "[1-9]*) parallel=$2 ;;
            "-n "[1-9]*)
                ranks=$2
                [ -z "${EES_LAUNCH:-}${SLURM_JOB_ID:-}" ] || say "-n $2 is not used: EES_LAUNCH or SLURM sets the number of ranks"
                ;;
            "--seeds "*)
                [[ $2 =~ ^[0-9]+(-[0-9]+)?$ ]] && [ "${2%-*}" -le "${2#*-}" ] || leave 2 "--seeds $2: expected FIRST-LAST, such as 0-11"
                seeds=$2
                ;;
            *) leave 2 "expected a number after -n and -j, and FIRST-LAST after --seeds" ;;
        esac
        shift 2
    done
    rest=("$@")
}

again_or_leave() { # exit code, output file, what was reached, "yes" if there are new commits
    local fruitless
    # A file that is still locked, perhaps by a writer on a lost node, may work later; a damaged file never does.
    [ "$1" != 2 ] && { [ "$1" != 3 ] || [ -e "$(readlink -f "$2").lock" ]; } || leave "$1" "this cannot work, see the error above; not started again"
    [ -z "$cancelled" ] || leave 75 "$3; stopped. Run the same command again to continue"
    if [ -n "$4" ] || [ "$1" = 75 ]; then
        rm -f "$2.fruitless"
    else # counted in a file: restarts for other reasons do not count
        fruitless=$(($(cat "$2.fruitless" 2>/dev/null || echo 0) + 1))
        echo $fruitless >"$2.fruitless"
        if [ $fruitless -gt $max_fruitless ]; then
            rm -f "$2.fruitless"
            leave 1 "$3; failed $fruitless times without progress (exit code $1); see the errors above, and run: ees-mpi doctor"
        fi
    fi
    [ "$restarts" -lt "$max_restarts" ] || leave 1 "$3; not started again: EES_MAX_RESTARTS=$max_restarts"
    if [ -z "${SLURM_JOB_ID:-}" ]; then
        [ -z "$warned" ] && [ "$1" != 75 ] || leave 75 "$3; stopped. Run the same command again to continue"
        restarts=$((restarts + 1))
        say "$3, exit code $1; starting again (restart $restarts of at most $max_restarts)"
        return
    fi
    requeue "$3, exit code $1"
}

requeue() { # what was reached
    # A task of an array is named by the array and its number: its job id alone may mean the whole array.
    local id=$SLURM_JOB_ID
    [ -z "${SLURM_ARRAY_TASK_ID:-}" ] || id=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID
    say "$1; going back into the queue"
    clean
    trap - EXIT
    trap '' TERM # SLURM ends this script with it
    scontrol requeue "$id" || leave 75 "could not be put back into the queue; submit the job again to continue"
    exit 0
}

prepare
