#!/usr/bin/env bash
# How evolvable are policies of three algorithms on MuJoCo's cheetah? Standard ES and MaxEnt-EES with the same task and
# budget, and PPO of jobs/train_elsewhere.py. The table and the figure of ees_mpi/docs/measure.md come from this command.
#   jobs/evolvability.sh [FOLDER]
# EES: the program (default ees-mpi); RANKS: how many (default 2); GENERATIONS, SIZE, STEPS (of PPO), COUNT, STDS.
# Finished runs in the folder are used again. A GPU takes 10 minutes; two cores need smaller numbers.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-runs/evolvability}
stds=${STDS:-0.005,0.01,0.02,0.05,0.1}
read -ra ees <<<"${EES:-ees-mpi}"
ranks=(mpirun -n "${RANKS:-2}" "${ees[@]}")
mkdir -p "$folder"

[ -e "$folder/ppo.pt" ] || python3 "$here/train_elsewhere.py" --steps "${STEPS:-1000000}" --out "$folder/ppo.pt" >"$folder/ppo.log" &
for name in es maxent; do
    "${ranks[@]}" train "mujoco-cheetah-$name" --seed 0 --set "population.size=${SIZE:-5000}" \
        --set "run.generations=${GENERATIONS:-50}" --out "$folder/$name.h5" --resume
    "${ees[@]}" export "$folder/$name.h5" --policy -o "$folder/$name.npz"
done
wait
for policy in es.npz maxent.npz ppo.pt; do
    name=${policy%.*}
    label=PPO
    [ "$name" = es ] && label="standard ES"
    [ "$name" = maxent ] && label="MaxEnt-EES"
    "${ranks[@]}" measure "$folder/$policy" --task mujoco-cheetah-maxent --std "$stds" --count "${COUNT:-1000}" \
        --label "$label" -o "$folder/$name-measure.h5" --overwrite
done
"${ees[@]}" figure measure "$folder"/{es,maxent,ppo}-measure.h5 -o "$folder/evolvability.png"
