"""`ees-mpi info`: a summary of a run file."""

import json
from typing import Any

import numpy as np

from ees_mpi.config import Config
from ees_mpi.state import State
from ees_mpi.store.reader import Run

CHECKED = "the attributes, the sessions and the state; `ees-mpi verify` checks the arrays of all generations, too"


def digest_of(run: Run) -> str:
    """Return the digest of the state after the last committed generation."""
    return State.from_arrays(run.state_arrays()).digest().hex()


def task_name(config: Config) -> str:
    """Return the name of the task that users know: the environment's, the function's, or the registered one."""
    return config.task.label or config.task_name


def summarize(run: Run) -> dict[str, Any]:
    """Return the facts that `info` prints."""
    config = run.config
    sessions = run.sessions()
    lengths = run["length"]
    steps = sum(int(np.asarray(lengths[g]).sum()) for g in range(run.generations))
    return {
        "format_version": int(run.attributes["format_version"]),
        "kind": str(run.attributes.get("kind", "run")),
        "method": config.method.name,
        "task": config.task_name,
        "objective": config.method.algorithm,
        "population": config.population_name,
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
        "devices": sorted({str(session["machine"].get("device", "cpu")) for session in sessions}),
        "evaluations": run.generations * config.population.size * config.method.rollouts,
        "steps": steps,
        "started_from": json.loads(run.attributes["started_from"] or "null"),
        "checked": CHECKED if run.hashed else "the state only: files of format 1 have no other hashes",
        "damage": run.damage or None,
    }
