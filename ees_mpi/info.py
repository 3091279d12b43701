"""What is in a run file, in a few facts."""

import json
from typing import Any

import numpy as np

from ees_mpi.config import FAMILIES
from ees_mpi.state import State
from ees_mpi.store.reader import Run


def digest_of(run: Run) -> str:
    """Return the digest of the state after the last committed generation."""
    return State.from_arrays(run.state_arrays()).digest().hex()


def task_name(config: Any) -> str:
    """Return how a user knows a config's task: its name, and of a Gymnasium task the environment's."""
    name = FAMILIES["task"].name_of(config.task)
    return str(getattr(config.task, "env", "") or getattr(config.task, "function", "") or name)


def summarize(run: Run) -> dict[str, Any]:
    """Return what `info` tells of a run file."""
    config = run.config
    sessions = run.sessions()
    lengths = run["length"]
    steps = sum(int(np.asarray(lengths[g]).sum()) for g in range(run.generations))
    return {
        "format_version": int(run.attributes["format_version"]),
        "kind": str(run.attributes.get("kind", "run")),
        "method": config.method,
        "task": FAMILIES["task"].name_of(config.task),
        "objective": FAMILIES["objective"].name_of(config.objective),
        "population": FAMILIES["population"].name_of(config.population),
        "population_size": config.population.size,
        "parameters": run["mean"].shape[2],
        "generations": run.generations,
        "generations_wanted": config.run.generations,
        "complete": run.complete,
        "seed": config.run.seed,
        "state_sha256": digest_of(run),
        "ranks": int(sessions[-1]["ranks"]) if sessions else 0,
        "nodes": int(sessions[-1]["nodes"]) if sessions else 0,
        "sessions": len(sessions),
        "evaluations": run.generations * config.population.size * config.rollouts,
        "steps": steps,
        "started_from": json.loads(run.attributes["started_from"] or "null"),
    }
