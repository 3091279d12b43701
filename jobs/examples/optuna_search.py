"""Optuna searches for the settings of a run, and stops runs that fall behind the others.

    pip install optuna && python jobs/examples/optuna_search.py [FOLDER]

Each trial is a run file, FOLDER/trial-N.h5. A run is pruned if its entropy is below the median of the earlier runs at
the same generation. Its file is saved up to there, and `ees-mpi resume` would continue it.
"""

import os
import sys

import optuna

import ees_mpi

FOLDER = sys.argv[1] if len(sys.argv) > 1 else "."
TRIALS, GENERATIONS = 12, 60


def entropy(trial):
    """Train with the settings that Optuna proposes; return the entropy of the last generation."""
    settings = {
        "population.std": trial.suggest_float("population.std", 0.05, 2.0, log=True),
        "optimizer.lr": trial.suggest_float("optimizer.lr", 0.01, 1.0, log=True),
        "population.size": 100,
        "run.generations": GENERATIONS,
        "run.fsync": False,
    }

    def on_generation(record):
        trial.report(record.metrics["entropy"], record.generation)
        if trial.should_prune():
            raise optuna.TrialPruned  # stops the run; `train` raises it again

    out = os.path.join(FOLDER, f"trial-{trial.number}.h5")
    with ees_mpi.train("interference-maxent", out, settings=settings, on_generation=on_generation) as run:
        return float(run["entropy"][-1])


pruner = optuna.pruners.MedianPruner(n_startup_trials=3, n_warmup_steps=10)
study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=0), pruner=pruner)
study.optimize(entropy, n_trials=TRIALS)
pruned = sum(trial.state == optuna.trial.TrialState.PRUNED for trial in study.trials)
print(f"{len(study.trials)} trials, {pruned} pruned; the best: {study.best_value:.3f} with {study.best_params}")
