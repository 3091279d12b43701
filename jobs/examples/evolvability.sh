#!/usr/bin/env bash
# How evolvable are policies of three algorithms on MuJoCo's cheetah? Standard ES and MaxEnt-EES with the same task and
# budget, and PPO of jobs/examples/train_elsewhere.py. The tables and the figure of ees_mpi/docs/measure.md come from this command.
#   jobs/examples/evolvability.sh [FOLDER]
# RANKS: how many (default 2). STEPS: of PPO. COUNT: offspring at each of STDS. SETTINGS: of the task and the two runs.
# The defaults are small, for two cores; SETTINGS= trains at the scale of the paper. Finished runs are used again.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-runs/evolvability}
task="task.steps=200 task.device=cpu noise.size=4000000"
read -ra settings <<<"${SETTINGS-$task task.hidden=[32,32] task.observation_share=0.1 population.size=300 population.std=0.05 optimizer.lr=0.03 optimizer.l2=0.005 run.generations=40}"
read -ra measured <<<"${SETTINGS-$task}"
ranks=(mpirun -n "${RANKS:-2}" ees-mpi)
mkdir -p "$folder"

ppo() { [ -e "$folder/ppo.pt" ] || python3 "$here/train_elsewhere.py" --steps "${STEPS:-100000}" --out "$folder/ppo.pt"; }
ppo >"$folder/ppo.log" &
for name in es maxent; do
    "${ranks[@]}" train "gymnasium-cheetah-$name" --seed 0 "${settings[@]/#/--set=}" --out "$folder/$name.h5" --resume
    ees-mpi export "$folder/$name.h5" --policy -o "$folder/$name.npz" --overwrite
done
wait
# An exported policy is measured in the task of its run; PPO's gets the same task, and its own hidden layers.
more=(--std "${STDS:-0.01,0.02,0.05,0.1,0.2}" --count "${COUNT:-300}" --overwrite)
"${ranks[@]}" measure "$folder/es.npz" "${more[@]}" --label "standard ES" -o "$folder/es-measure.h5"
"${ranks[@]}" measure "$folder/maxent.npz" "${more[@]}" --label "MaxEnt-EES" -o "$folder/maxent-measure.h5"
"${ranks[@]}" measure "$folder/ppo.pt" --task gymnasium-cheetah-maxent "${measured[@]/#/--set=}" "${more[@]}" --label PPO \
    -o "$folder/ppo-measure.h5"
ees-mpi figure measure "$folder"/{es,maxent,ppo}-measure.h5 -o "$folder/evolvability.png"
