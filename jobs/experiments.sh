# Sourced by reproduce.slurm and reproduce.sh: every experiment of the paper, as stages of tasks that can run side by side.
# A stage is a list of tasks, one a line, each a call of a function below; `needs` says which stages must be complete first.
#
#   --scale S        shrink populations and generations together, to S times the paper's; tiny: as small as can be [1]
#   --seeds N        runs of each algorithm, half as many for mixtures          [12; tiny: 2]
#   --runs FOLDER    where everything goes                                      [runs/reproduce]
#   --without-maml   leave the gradient-based rival out (it needs torch)

stages=(interference cheetah ant mixtures maml seeding splitting adaptation sampling figures statistics)
scale=1 seeds='' maml=cheetah-maml
options=() # as they were given, for the jobs that this one submits

parse() { # one word of the command line and the next: sets `taken` to how many were used
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
    case $EES_RUNS in *[[:space:]]*) echo "job: --runs $EES_RUNS: expected a name without blanks" >&2 && exit 2 ;; esac
}

needs() { # stage: the stages that it builds on
    case $1 in
        seeding | splitting) echo ant ;;
        adaptation | sampling) echo cheetah maml ;;
        figures | statistics) echo "${stages[@]:0:9}" ;;
    esac
}

tasks() { # stage: its tasks, one a line
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

each() { # function, presets: a task for every seed of each
    local preset seed
    for preset in "${@:2}"; do
        for seed in $(seq 0 $((seeds - 1))); do echo "$1 $preset $seed"; done
    done
}

half() { # command: with half the seeds, the paper's six for mixtures
    local seeds=$(((seeds + 1) / 2))
    [ "$scale" != tiny ] || seeds=2
    "$@"
}

sized() { # preset: the words that shrink it
    [ "$scale" != 1 ] || return 0
    ees-mpi presets "$1" | awk -v scale="${scale/tiny/0.0001}" -v furthest="$([ "$1" != ant-adapt ] || after 20)" '
        function scaled(text, least) {
            gsub(/_/, "", text)
            n = int(text * scale + 0.5)
            return n < least ? least : n
        }
        /^\[/ { section = $1 }
        section == "[run]" && $1 == "generations" { print "--set run.generations=" scaled($3, furthest ? furthest + 1 : 3) }
        section == "[population]" && $1 == "name" { least = $3 ~ /tasks/ ? 2 : 8 }
        section == "[population]" && $1 == "size" { n = scaled($3, least); print "--set population.size=" n + n % 2 }
    '
    [ "$scale" = tiny ] || return 0
    case $1 in
        interference-*) ;;
        *-maml) echo "--set task.steps=8 --set task.hidden=[4,4] --set noise.size=5000 --set maml.rollouts=2" ;;
        *) echo "--set task.steps=8 --set task.hidden=[4,4] --set noise.size=5000" ;;
    esac
}

after() { # generations of further evolution in the paper: in these runs
    awk -v n="$1" -v scale="${scale/tiny/0.15}" 'BEGIN { n = int(n * scale + 0.5); print n < 1 ? 1 : n }'
}

file() { echo "$EES_RUNS/$1-seed$2.h5"; } # name, seed

files() { # names: the files of all seeds of each
    local name seed
    for name in "$@"; do
        for seed in $(seq 0 $((seeds - 1))); do file "$name" "$seed"; done
    done
}

# What a task does. Words in $(...) are split on purpose: none of them has a blank.

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
