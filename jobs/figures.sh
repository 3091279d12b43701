#!/usr/bin/env bash
# Draws all figures of the paper from small real runs, and one sheet with all of them. The runs have 60 individuals, 120 steps and 5
# generations, the paper's 10,000, 1,000 and 100: the figures show their layout, not the paper's results. Takes minutes on two free
# cores; complete runs are skipped.   jobs/figures.sh [FOLDER]
set -euo pipefail
jobs=$(cd "$(dirname "$0")" && pwd)
folder=${1:-runs/figures}
ranks=${RANKS:-2}
mkdir -p "$folder"
cd "$folder"

small=(--set population.size=60 --set task.steps=120 --set run.generations=5 --set noise.size=400000)
run() { # NAME PRESET [OPTIONS]
    mpirun -n "$ranks" ees-mpi train "$2" -o "$1.h5" --resume "${@:3}"
}
offspring() { # NAME RUN.h5 [OPTIONS]
    [ -e "$1.h5" ] || mpirun -n "$ranks" ees-mpi sample "$2" --count 60 -o "$1.h5" "${@:3}"
}
draw() { # NAME FILE ...
    ees-mpi figure "$1" "${@:2}" -o "$1.png"
}

for variant in maxvar maxent; do
    run interference-$variant-0 interference-$variant
done
for objective in es maxvar maxent; do
    run ant-$objective ant-$objective "${small[@]}"
    run cheetah-$objective-0 cheetah-$objective "${small[@]}"
done
run cheetah-maxent-1 cheetah-maxent "${small[@]}" --seed 1
run ant-mixture ant-maxent-mixture "${small[@]}"
run ant-split ant-maxent-split "${small[@]}" --from ant-maxent.h5
run ant-adapt-0 ant-adapt "${small[@]}" --from ant-maxent.h5
run ant-adapt-1 ant-adapt "${small[@]}" --from ant-maxent.h5 --seed 1
run ant-random ant-adapt "${small[@]}"
run maml cheetah-maml-laptop --set task.steps=120 --set maml.horizon=60 --set maml.rollouts=2 --set run.generations=5
offspring cheetah-sample cheetah-maxent-0.h5
offspring maml-sample maml.h5
offspring maml-quarter maml.h5 --std 0.005

draw interference interference-*.h5
draw cheetah cheetah-es-0.h5 cheetah-maxvar-0.h5 cheetah-maxent-0.h5
draw maml-training maml.h5
draw maml cheetah-sample.h5 maml-sample.h5 maml-quarter.h5
draw ant ant-es.h5 ant-maxvar.h5 ant-maxent.h5
draw adaptation ant-adapt-*.h5 ant-random.h5
draw adaptation-heatmaps ant-adapt-0.h5
draw mixture ant-maxent.h5 ant-mixture.h5 ant-split.h5
draw locomotion cheetah-*-[01].h5
draw feasibility
python "$jobs/contact_sheet.py" sheet.png interference.png cheetah.png maml.png maml-training.png adaptation.png \
    ant.png adaptation-heatmaps.png mixture.png locomotion.png feasibility.png
