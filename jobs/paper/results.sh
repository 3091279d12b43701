# Sourced by reproduce.slurm and reproduce.sh: the paper's figures and statistics, from the run files that `experiments.sh` names.
# These functions only read files.

figures() {
    local robot variant
    mkdir -p "$EES_RUNS/figures"
    [ "$engine" = mujoco ] || draw interference $(files interference-maxvar interference-maxent)
    draw cheetah $(first cheetah-es cheetah-maxvar cheetah-maxent)
    draw ant $(first ant-es ant-maxvar ant-maxent)
    draw maml $(samples sample) $(samples sample-quarter)
    draw adaptation $(files ant-adapt ant-maxvar-further ant-maxent-further)
    draw adaptation-heatmaps $(first ant-maxent-further ant-maxvar-further)
    for robot in cheetah ant; do
        draw_as locomotion-$robot locomotion $(files $robot-es $robot-maxvar $robot-maxent)
    done
    for variant in maxent maxvar; do
        draw_as mixture-$variant mixture $(first ant-$variant ant-$variant-mixture ant-$variant-split)
    done
    python3 "$jobs/paper/feasibility.py" "$EES_RUNS/figures/feasibility.png"
    [ -z "$maml" ] || draw maml-training $(files "$maml")
    say "figures are in $EES_RUNS/figures"
}

collecting() { # the small files of all runs, which may leave this machine
    local file gpus
    gpus=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | paste -sd '+')
    for file in "$EES_RUNS"/*-seed*.h5; do
        local means=--policy
        case $file in *-sample*) means='' ;; esac # a sample has the mean of its run
        [ ! -e "$file" ] || python3 "$jobs/paper/results.py" collect "$file" $means --results "$EES_RUNS/results" \
            --note "${gpus:+$gpus, }$(cores) $(uname -m) cores" || leave 1 "collecting $file failed, see the error above"
    done
    python3 "$jobs/paper/results.py" draw --results "$EES_RUNS/results" || leave 1 "drawing failed, see the error above"
}

draw() { draw_as "$1" "$@"; }

draw_as() { # name of the picture, name of the figure, files
    ees-mpi figure "$2" "${@:3}" -o "$EES_RUNS/figures/$1.png" || leave 1 "figure $2 failed, see the error above"
}

first() { # names: prints the run with seed 0 of each
    local name
    for name in "$@"; do file "$name" 0; done
}

samples() { # suffix: prints the samples of all cheetah runs with seed 0, as in the paper
    local name
    for name in cheetah-maxvar cheetah-maxent $maml; do file "$name" 0 | sed "s/\.h5$/-$1.h5/"; done
}

statistics() {
    local out=$EES_RUNS/statistics.txt name generation
    : >"$out.new"
    claim "Cheetah: standard ES moves further than either variant; MaxVar and MaxEnt do not differ" \
        distance_mean $(files cheetah-maxvar cheetah-maxent) --against $(files cheetah-es)
    # In short runs no offspring may pass the radius, and balance has no value. A tiny radius counts all offspring.
    claim "Cheetah: offspring go left and right" balance $(files cheetah-maxvar cheetah-maxent) \
        --against $(files cheetah-es) $([ "$scale" = 1 ] || echo --radius 1e-9)
    claim "Ant: standard ES moves further than either variant; MaxVar and MaxEnt do not differ" \
        distance_mean $(files ant-maxvar ant-maxent) --against $(files ant-es)
    claim "Ant: more offspring of standard ES end within 5 units of the origin" \
        near_origin $(files ant-maxvar ant-maxent) --against $(files ant-es)
    for generation in $(for paper in 5 10 20; do after $paper; done | uniq); do
        claim "Seeding: standard ES gets further from a trained mean than from a random one, after $generation generations" \
            distance_after_$generation $(files ant-maxvar-further ant-maxent-further) --against $(files ant-adapt)
    done
    for name in maxvar maxent; do
        claim "Mixtures, $name: two components cover as much space as one" \
            coverage $(half files ant-$name-mixture ant-$name-split) --against $(half files ant-$name)
    done
    [ -z "$maml" ] || statistics_of_maml
    mv "$out.new" "$out"
    cat "$out"
    say "this text is in $out"
}

statistics_of_maml() {
    local ees=(cheetah-maxvar cheetah-maxent) ending size
    claim "Adaptation: MaxEnt walks further than MAML and than MaxVar; MaxVar and MAML do not differ" \
        adaptation $(files "${ees[@]}") --against $(files "$maml")
    for ending in sample sample-quarter; do
        size=$([ $ending = sample ] && echo the same size || echo a quarter of the size)
        claim "Offspring of MaxVar and MaxEnt end further away than offspring of MAML with mutations of $size" \
            distance_mean $(sampled_files sample "${ees[@]}") --against $(sampled_files $ending "$maml")
        claim "Offspring of MaxVar and MaxEnt spread wider than offspring of MAML with mutations of $size" \
            distance_variance $(sampled_files sample "${ees[@]}") --against $(sampled_files $ending "$maml")
    done
}

sampled_files() { files "${@:2}" | sed "s/\.h5$/-$1.h5/"; } # suffix, names

claim() { # claim of the paper, metric, files --against files
    {
        echo "## $1"
        ees-mpi compare --metric "${@:2}" || leave 1 "compare failed, see the error above"
        echo
    } >>"$EES_RUNS/statistics.txt.new"
}
