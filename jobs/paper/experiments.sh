# Sourced by reproduce.slurm and reproduce.sh: all experiments of the paper, as stages. A stage is a list of tasks that can run at the
# same time; each task is a call of a function below. `needs` names the stages that must be complete first.
#
#   --robots R       paper, or gymnasium: other robots, which test the method              [paper]
#   --engine E       the physics of the paper's robots: bullet or mujoco                    [bullet; gymnasium: mujoco]
#   --scale S        paper; plan: the plan of docs/reproduce.md, 30 generations; short: 20 generations; tiny: as small as
#                    possible; or a number: multiply populations and generations by it      [paper; mujoco: plan; gymnasium: see `work`]
#   --seeds N        the number of runs of each algorithm; mixtures get half as many         [12; plan: 6; short: 4; tiny: 2]
#   --runs FOLDER    the folder of all files                                                 [runs/reproduce]
#   --without-maml   leave MAML out (it needs torch)

stages=(interference cheetah ant mixtures maml seeding splitting adaptation sampling figures statistics)
robots=paper engine='' scale='' seeds='' maml=cheetah-maml
declare -A sizes=() # the settings that `sized` printed
options=() # the given options, for the jobs that this job submits

parse() { # a word of the command line and the next: sets `taken` to the number of words that it used
    taken=2
    case $1 in
        --robots) robots=$2 ;;
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
    case $robots,$engine in
        paper, | paper,bullet) engine=bullet ;;
        paper,mujoco) planned=yes ;;
        gymnasium, | gymnasium,mujoco) engine=mujoco && stages=("${stages[@]/#interference/}") ;; # it has no physics
        paper,* | gymnasium,*) echo "job: --engine $engine: expected $([ $robots = gymnasium ] || echo bullet or) mujoco" >&2 && exit 2 ;;
        *) echo "job: --robots $robots: expected paper or gymnasium" >&2 && exit 2 ;;
    esac
    [ "$robots$scale" != gymnasium ] || in_order=yes
    case ${scale:=${planned:+plan}} in
        '' | paper) scale=1 ;;
        plan | short | tiny) ;;
        *) awk -v s="$scale" 'BEGIN { exit !(s ~ /^[0-9]*\.?[0-9]+$/ && s > 0 && s <= 1) }' \
            || { echo "job: --scale $scale: expected paper, plan, short, tiny, or a number above 0 and up to 1" >&2 && exit 2; } ;;
    esac
    [ -n "$seeds" ] || case $scale in tiny) seeds=2 ;; short) seeds=4 ;; plan) seeds=6 ;; *) seeds=12 ;; esac
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
    [ -z "${planned:-}" ] || { plan | sed "s/^\([^ ]*\)/\1 $scale $seeds/" && return; }
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

plan() { # prints the stages and tasks of the plan in docs/reproduce.md, in its order: inside a block seed by seed
    block ant '' "fresh ant-es" "fresh ant-maxvar" "fresh ant-maxent"
    block seeding '' "further ant-maxvar" "further ant-maxent" "random_gentle ant-adapt" \
        3 "fresh ant-adapt" "further_fresh ant-maxent" "fresh ant-es-backward" "further ant-es-backward"
    block cheetah '' "fresh cheetah-es" "fresh cheetah-maxvar" "fresh cheetah-maxent" \
        "adapted cheetah-maxvar" "adapted cheetah-maxent" "offspring cheetah-maxvar" "offspring cheetah-maxent"
    [ -z "$maml" ] || block maml '' "fresh $maml" "adapted $maml" "sampled $maml"
    block mixtures '' "fresh ant-maxent-mixture" "split ant-maxent"
    block authors 1 "fresh cheetah-maxvar-authors" "fresh cheetah-maxent-authors"
}

block() { # stage, number of seeds or '', tasks: prints them for each seed; a number N among them: the rest for seeds below N only
    local seed task fewer
    for seed in $(seq 0 $((${2:-$seeds} - 1))); do
        fewer=$seeds
        for task in "${@:3}"; do
            case $task in
                [0-9]*) fewer=$task ;;
                *) [ "$seed" -ge "$fewer" ] || echo "$1 $task $seed" ;;
            esac
        done
    done
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

preset() { # name of a run: prints its preset, and the settings that make it the same experiment on these robots and this engine
    local two="--set population.name=mixture --set population.components=2"
    case $robots,$engine,$1 in
        paper,*,*-backward) echo "$(preset "${1%-backward}") --set task.direction=180.0" ;;
        paper,bullet,*) echo "$1" ;;
        paper,mujoco,interference-*) echo "$1" ;;
        paper,mujoco,*) echo "$1 --set task.engine=mujoco" ;;
        *,ant-adapt) echo "mujoco-ant-es --set run.generations=21" ;;
        *,*-mixture) echo "mujoco-${1%-mixture} $two" ;;
        *,*-split) echo "mujoco-${1%-split} $two --set run.generations=20" ;;
        *,cheetah-maml) echo "$1 --set task.name=mujoco --set task.model=cheetah" ;;
        *) echo "mujoco-$1" ;;
    esac
}

sized() { # name of a run: prints the settings that shrink it
    case $scale,$1 in
        1,* | short,interference-* | plan,interference-* | short,ant-adapt | short,*-split) return ;;
        plan,ant-adapt | plan,*-split) return ;;
        plan,*-maml) echo "--set run.generations=375" && return ;; # as many steps as the other runs
        plan,*-mixture) echo "--set run.generations=20" && return ;;
        plan,*) echo "--set run.generations=30" && return ;;
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
    share=${share/plan/1}
    awk -v n="$1" -v scale="${share/tiny/0.15}" 'BEGIN { n = int(n * scale + 0.5); print n < 1 ? 1 : n }'
}

file() { # name, seed
    local short=''
    [ "$scale" != short ] || short=-short
    case $robots,$engine in
        paper,bullet) echo "$EES_RUNS/$1$short-seed$2.h5" ;;
        paper,mujoco) echo "$EES_RUNS/$1$short-mujoco-seed$2.h5" ;;
        *) echo "$EES_RUNS/mujoco-$1$short-seed$2.h5" ;;
    esac
}

trained() { # name, seed: prints its run file; if only its small files are here, its trained mean
    local run small
    run=$(file "$1" "$2")
    small=${collected:+$collected/$(basename "${run%.h5}")/policy.npz}
    [ ! -e "$run" ] && [ -e "$small" ] && echo "$small" || echo "$run"
}

files() { # names: prints the files of all seeds of each
    local name seed
    for name in "$@"; do
        for seed in $(seq 0 $((seeds - 1))); do file "$name" "$seed"; done
    done
}

# The functions of the tasks. Words in $(...) are split on purpose: none of them has a space.

fresh() { made "$1" "$1" "$2"; }

further() { made ant-adapt "$1-further" "$2" --from "$(trained "$1" "$2")" --set optimizer.correct_first=false; }

split() { made "$1-split" "$1-split" "$2" --from "$(trained "$1" "$2")" --set optimizer.correct_first=false; }

# The other rule for the first steps, and the control, see docs/reproduce.md
further_fresh() { made ant-adapt "$1-further-fresh" "$2" --from "$(trained "$1" "$2")" --set optimizer.correct_first=true; }

random_gentle() { made "$1" "$1-gentle" "$2" --set optimizer.correct_first=false; }

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
        step "${run%.h5}-adapt-$direction.h5" adapt "$(trained "$1" "$2")" --direction $direction "${few[@]}"
    done
}

offspring() { # name, seed, ending, more options
    local run count=1000
    run=$(file "$1" "$2")
    [ "$scale" != tiny ] || count=20
    step "${run%.h5}-${3:-sample}.h5" sample "$(trained "$1" "$2")" --count $count "${@:4}"
}

sampled() {
    offspring "$1" "$2"
    offspring "$1" "$2" sample-quarter --std 0.005
}
