#!/usr/bin/env bash
# Does a trained mean speed up further evolution? Runs standard ES towards +x and towards -x, from a trained MaxEnt mean and
# from a random one, and draws both. On two cores, training the mean takes half an hour (skipped if it exists), the rest a
# few minutes.   jobs/seeding.sh [FOLDER]
set -euo pipefail
folder=${1:-runs/seeding}
mkdir -p "$folder"
start=$folder/gymnasium-cheetah-maxent-laptop-seed0.h5
mpirun -n 2 ees-mpi train gymnasium-cheetah-maxent-laptop --out "$start" --resume
for direction in 0 180; do
    train=(mpirun -n 2 ees-mpi train gymnasium-cheetah-adapt-laptop --set task.direction=$direction.0 --resume)
    "${train[@]}" --out "$folder/random-$direction.h5"
    "${train[@]}" --from "$start" --out "$folder/maxent-$direction.h5"
done
ees-mpi figure adaptation "$folder"/random-*.h5 "$folder"/maxent-*.h5 -o "$folder/adaptation.png"
