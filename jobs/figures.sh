#!/usr/bin/env bash
# Draws all figures of the paper from small real runs, and one sheet with all of them. The runs have 60 to 100 individuals,
# the paper's 10,000: the figures show that the method works, not the paper's numbers. Takes minutes on two free cores; complete
# runs are skipped.   jobs/figures.sh [FOLDER]
set -euo pipefail
jobs=$(cd "$(dirname "$0")" && pwd)
folder=${1:-runs/figures}
ranks=${RANKS:-2}
mkdir -p "$folder"
cd "$folder"

run() { # NAME PRESET [OPTIONS]
    mpirun -n "$ranks" ees-mpi train "$2" --out "$1.h5" --resume "${@:3}"
}
offspring() { # NAME RUN.h5 [OPTIONS]
    [ -e "$1.h5" ] || mpirun -n "$ranks" ees-mpi sample "$2" --count 200 --out "$1.h5" "${@:3}"
}
draw() { # NAME FILE ...
    ees-mpi figure "$1" "${@:2}" -o "$1.png"
}

for seed in 0 1; do
    for variant in maxvar maxent; do
        run interference-$variant-$seed interference-$variant --seed $seed
    done
    for objective in fitness maxvar maxent; do
        run cheetah-$objective-$seed gymnasium-cheetah-adapt-laptop --seed $seed --set objective.name=$objective \
            --set task.steps=300 --set run.generations=12
    done
done
small=(--set population.size=60 --set noise.size=4194304)
ant=("${small[@]}" --set task.steps=400)
for objective in es maxvar maxent; do
    run ant-$objective ant-$objective "${ant[@]}" --set run.generations=14
done
run ant-mixture ant-maxent-mixture "${ant[@]}" --set run.generations=14
run ant-split ant-maxent-split "${ant[@]}" --set run.generations=6 --from ant-maxent.h5
run ant-adapt ant-adapt "${ant[@]}" --set run.generations=9 --from ant-maxent.h5
run ant-random ant-adapt "${ant[@]}" --set run.generations=9

bullet=("${small[@]}" --set task.steps=200)
for objective in maxvar maxent; do
    run bullet-$objective cheetah-$objective "${bullet[@]}" --set run.generations=10
    offspring bullet-$objective-sample bullet-$objective.h5
done
run maml cheetah-maml-laptop --set task.steps=200 --set maml.horizon=100 --set maml.rollouts=5 --set run.generations=20
offspring maml-sample maml.h5
offspring maml-quarter maml.h5 --std 0.005

draw interference interference-*.h5
draw cheetah cheetah-fitness-0.h5 cheetah-maxvar-0.h5 cheetah-maxent-0.h5
draw maml-training maml.h5
draw maml bullet-*-sample.h5 maml-sample.h5 maml-quarter.h5
draw ant ant-es.h5 ant-maxvar.h5 ant-maxent.h5
draw adaptation ant-adapt.h5 ant-random.h5
draw adaptation-heatmaps ant-adapt.h5
draw mixture ant-maxent.h5 ant-mixture.h5 ant-split.h5
draw locomotion cheetah-*-[01].h5
draw feasibility
python "$jobs/contact_sheet.py" sheet.png interference.png cheetah.png maml.png maml-training.png adaptation.png \
    ant.png adaptation-heatmaps.png mixture.png locomotion.png feasibility.png
