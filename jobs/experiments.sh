# Sourced by reproduce.slurm and reproduce.sh: all experiments of the paper, as stages. A stage is a list of tasks that can run at the
# same time; each task is a call of a function below. `needs` names the stages that must be complete first.
#
#   --scale S        multiply populations and generations by S; tiny: as small as possible   [1]
#   --seeds N        the number of runs of each algorithm; mixtures get half as many         [12; tiny: 2]
#   --runs FOLDER    the folder of all files                                                 [runs/reproduce]
#   --without-maml   leave MAML out (it needs torch)

stages=(interference cheetah ant mixtures maml seeding splitting adaptation sampling figures statistics)
scale=1 seeds='' maml=cheetah-maml
options=() # the given options, for the jobs that this job submits

parse() { # a word of the command line and the next: sets `taken` to the number of words that it used
    taken=2
    case $1 in
        --scale) scale=$2 ;;
        --seeds) seeds=$2 ;;
        --runs) EES_RUNS=$2 ;;
        --without-maml) maml='' taken=1 ;;
        *) return 1 ;;
    esac
    options+=("${@:1:taken}")
}

check_options() {
    [ "$scale" = tiny ] || awk -v s="$scale" 'BEGIN { exit !(s ~ /^[0-9]*\.?[0-9]+$/ && s > 0 && s <= 1) }' \
        || { echo "job: --scale $scale: expected a number above 0 and up to 1, or tiny" >&2 && exit 2; }
    [ -n "$seeds" ] || { [ "$scale" = tiny ] && seeds=2 || seeds=12; }
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

tasks() { # stage: prints its tasks, one per line
    case $1 in
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

sized() { # preset: prints the settings that shrink it
    [ "$scale" != 1 ] || return 0
    ees-mpi config "$1" --json | python3 -c 'import json, sys
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
    awk -v n="$1" -v scale="${scale/tiny/0.15}" 'BEGIN { n = int(n * scale + 0.5); print n < 1 ? 1 : n }'
}

file() { echo "$EES_RUNS/$1-seed$2.h5"; } # name, seed

files() { # names: prints the files of all seeds of each
    local name seed
    for name in "$@"; do
        for seed in $(seq 0 $((seeds - 1))); do file "$name" "$seed"; done
    done
}

# The functions of the tasks. Words in $(...) are split on purpose: none of them has a space.

fresh() { train "$1" --seed "$2" --out "$(file "$1" "$2")" $(sized "$1"); }

further() { train ant-adapt --seed "$2" --from "$(file "$1" "$2")" --out "$(file "$1-further" "$2")" $(sized ant-adapt); }

split() { train "$1-split" --seed "$2" --from "$(file "$1" "$2")" --out "$(file "$1-split" "$2")" $(sized "$1-split"); }

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
