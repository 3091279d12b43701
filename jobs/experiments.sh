# Sourced by reproduce.slurm and reproduce.sh: all experiments of the paper, as stages. A stage is a list of tasks that can run at the
# same time; each task is a call of a function below. `needs` names the stages that must be complete first.
#
#   --engine E       bullet (the paper's robots) or mujoco (other physics, which tests the method)   [bullet]
#   --scale S        paper; short: the paper's population, 20 generations; tiny: as small as possible;
#                    or a number: multiply populations and generations by it                [paper; mujoco: see `work`]
#   --seeds N        the number of runs of each algorithm; mixtures get half as many         [12; short: 4; tiny: 2]
#   --runs FOLDER    the folder of all files                                                 [runs/reproduce]
#   --without-maml   leave MAML out (it needs torch)

stages=(interference cheetah ant mixtures maml seeding splitting adaptation sampling figures statistics)
engine=bullet scale='' seeds='' maml=cheetah-maml
declare -A sizes=() # the settings that `sized` printed
options=() # the given options, for the jobs that this job submits

parse() { # a word of the command line and the next: sets `taken` to the number of words that it used
    taken=2
    case $1 in
        --engine) engine=$2 ;;
        --scale) scale=$2 ;;
        --seeds) seeds=$2 ;;
        --runs) EES_RUNS=$2 ;;
        --without-maml) maml='' taken=1 ;;
        *) return 1 ;;
    esac
    options+=("${@:1:taken}")
}

check_options() {
    case $engine in
        bullet) ;;
        mujoco) stages=("${stages[@]/#interference/}") ;; # it has no physics
        *) echo "job: --engine $engine: expected bullet or mujoco" >&2 && exit 2 ;;
    esac
    [ "$engine$scale" != mujoco ] || in_order=yes
    case ${scale:=1} in
        paper) scale=1 ;;
        short | tiny) ;;
        *) awk -v s="$scale" 'BEGIN { exit !(s ~ /^[0-9]*\.?[0-9]+$/ && s > 0 && s <= 1) }' \
            || { echo "job: --scale $scale: expected paper, short, tiny, or a number above 0 and up to 1" >&2 && exit 2; } ;;
    esac
    [ -n "$seeds" ] || case $scale in tiny) seeds=2 ;; short) seeds=4 ;; *) seeds=12 ;; esac
    [[ $seeds =~ ^[1-9][0-9]*$ ]] || { echo "job: --seeds $seeds: expected a number of runs" >&2 && exit 2; }
    export EES_RUNS=${EES_RUNS:-runs/reproduce}
    case $EES_RUNS in *[[:space:]]*) echo "job: --runs $EES_RUNS: expected a name without spaces" >&2 && exit 2 ;; esac
}

needs() { # stage: prints the stages that it needs
    case $1 in
        seeding | splitting) echo ant ;;
        adaptation | sampling) echo cheetah maml ;;
        figures | statistics) echo "${stages[@]:0:9}" ;;
    esac
}

work() { # prints all tasks, one per line: stage, scale, number of seeds, task
    if [ -z "${in_order:-}" ]; then
        at "$scale" "$seeds" ${stages[@]}
        return
    fi
    local later=$maml maml=''
    { # MuJoCo on GPUs that are lent for minutes: the largest runs first, then the comparisons, then more seeds
        at 1 1 largest
        at short 4 cheetah adaptation sampling
        at short 4 ant seeding mixtures splitting
        at short 6 cheetah adaptation sampling ant seeding
        at 1 1 cheetah ant
        maml=$later
        at short 4 maml adaptation sampling
    } | awk '{ task = $2; for (n = 4; n <= NF; n++) task = task " " $n } !seen[task]++'
    echo "collecting 1 1 collecting"
}

at() { # scale, number of seeds, stages: prints the tasks of these stages
    local scale=$1 seeds=$2 stage
    for stage in "${@:3}"; do tasks "$stage" | sed "s/^/$stage $scale $seeds /"; done
}

tasks() { # stage: prints its tasks, one per line
    case $1 in
        largest) echo "fresh cheetah-maxent 0" && echo "fresh ant-maxent 0" ;;
        interference) each fresh interference-maxvar interference-maxent ;;
        cheetah) each fresh cheetah-es cheetah-maxvar cheetah-maxent ;;
        ant) each fresh ant-es ant-maxvar ant-maxent ;;
        mixtures) half each fresh ant-maxvar-mixture ant-maxent-mixture ;;
        maml) each fresh $maml ;;
        seeding) each further ant-maxvar ant-maxent && each fresh ant-adapt ;;
        splitting) half each split ant-maxvar ant-maxent ;;
        adaptation) each adapted cheetah-maxvar cheetah-maxent $maml ;;
        sampling) each sampled cheetah-maxvar cheetah-maxent $maml ;;
        figures | statistics) echo "$1" ;;
    esac
}

each() { # function, presets: prints a task for every preset and seed
    local preset seed
    for preset in "${@:2}"; do
        for seed in $(seq 0 $((seeds - 1))); do echo "$1 $preset $seed"; done
    done
}

half() { # command: runs it with half the seeds; the paper has six runs of mixtures
    local seeds=$(((seeds + 1) / 2))
    [ "$scale" != tiny ] || seeds=2
    "$@"
}

preset() { # name of a run: prints its preset, and the settings that make it the same experiment on this engine
    local two="--set population.name=mixture --set population.components=2"
    [ "$engine" = mujoco ] || { echo "$1" && return; }
    case $1 in
        ant-adapt) echo "mujoco-ant-es --set run.generations=21" ;;
        *-mixture) echo "mujoco-${1%-mixture} $two" ;;
        *-split) echo "mujoco-${1%-split} $two --set run.generations=20" ;;
        cheetah-maml) echo "$1 --set task.name=mujoco --set task.model=cheetah --set task.device=cpu" ;;
        *) echo "mujoco-$1" ;;
    esac
}

sized() { # name of a run: prints the settings that shrink it
    case $scale,$1 in
        1,* | short,interference-* | short,ant-adapt | short,*-split) return ;;
        short,*-maml) echo "--set run.generations=250" && return ;; # as many steps as the other runs
        short,*) echo "--set run.generations=20" && return ;;
    esac
    ees-mpi config $(preset "$1") --json | python3 -c 'import json, sys
config, scale, least = json.load(sys.stdin), float(sys.argv[1]), int(sys.argv[2])
population = config["population"]
size = max(2 if population["name"] == "tasks" else 8, int(population["size"] * scale + 0.5))
print("--set run.generations=%d" % max(least, int(config["run"]["generations"] * scale + 0.5)))
print("--set population.size=%d" % (size + size % 2))' "${scale/tiny/0.0001}" "$([ "$1" = ant-adapt ] && echo $(($(after 20) + 1)) || echo 3)"
    [ "$scale" = tiny ] || return 0
    case $1 in
        interference-*) ;;
        *-maml) echo "--set task.steps=8 --set task.hidden=[4,4] --set noise.size=5000 --set maml.rollouts=2" ;;
        *) echo "--set task.steps=8 --set task.hidden=[4,4] --set noise.size=5000" ;;
    esac
}

after() { # generations of further evolution in the paper: prints their number in these runs
    local share=${scale/short/1}
    awk -v n="$1" -v scale="${share/tiny/0.15}" 'BEGIN { n = int(n * scale + 0.5); print n < 1 ? 1 : n }'
}

file() { # name, seed
    local engines=${engine/bullet/} short=''
    [ "$scale" != short ] || short=-short
    echo "$EES_RUNS/${engines:+$engines-}$1$short-seed$2.h5"
}

files() { # names: prints the files of all seeds of each
    local name seed
    for name in "$@"; do
        for seed in $(seq 0 $((seeds - 1))); do file "$name" "$seed"; done
    done
}

# The functions of the tasks. Words in $(...) are split on purpose: none of them has a space.

fresh() { made "$1" "$1" "$2"; }

further() { made ant-adapt "$1-further" "$2" --from "$(file "$1" "$2")"; }

split() { made "$1-split" "$1-split" "$2" --from "$(file "$1" "$2")"; }

made() { # name of the experiment, name of the run, seed, more options
    local key="$scale $1"
    [ -n "${sizes[$key]+known}" ] || sizes[$key]=$(sized "$1")
    train $(preset "$1") --seed "$3" --out "$(file "$2" "$3")" "${@:4}" ${sizes[$key]} $(limit)
}

limit() { # prints the option that stops a training when the time of --minutes ends
    [ -z "${ends:-}" ] || awk -v s=$((ends - SECONDS)) 'BEGIN { printf "--max-hours %.4f", (s < 10 ? 10 : s) / 3600 }'
}

adapted() {
    local run direction few=()
    run=$(file "$1" "$2")
    [ "$scale" != tiny ] || [ "$1" = "$maml" ] || few=(--mutations 4 --evaluations 2)
    for direction in left right; do
        step "${run%.h5}-adapt-$direction.h5" adapt "$run" --direction $direction "${few[@]}"
    done
}

sampled() {
    local run count=1000
    run=$(file "$1" "$2")
    [ "$scale" != tiny ] || count=20
    step "${run%.h5}-sample.h5" sample "$run" --count $count
    step "${run%.h5}-sample-quarter.h5" sample "$run" --count $count --std 0.005
}
