"""The shelf of trained means, ees_mpi/trained: policies that `ees-mpi sample`, `adapt`, `measure` and `--from` take.

Each NAME.npz has its card NAME.md: how it was trained, its numbers, its hash, and what can be done with it.
`results.py update` writes the cards again, from the policies and numbers.csv.
"""

import hashlib
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from endpoints import Row, number

ROBOTS = {
    "cheetah": "the paper's cheetah",
    "ant": "the paper's ant",
    "gymnasium-cheetah": "Gymnasium's cheetah in MuJoCo",
    "gymnasium-ant": "Gymnasium's ant in MuJoCo",
}
ENGINES = {"bullet": ", in Bullet", "mujoco": ", the Bullet replica in MuJoCo"}
HEAD = """# Trained means

Each is a policy that `measure`, `sample`, `adapt`, `replay` and `train --from` take, as `shelf:NAME`.
Its card says how it was trained and what it can do.

| policy | trained | its mutations, std 0.02 |
|---|---|---|
"""
RULES = {"text": "the rules of the paper's text", "released": "the rules of the released program"}


def read(policy: Path) -> dict[str, Any]:
    """Return what a policy says about its training."""
    with np.load(policy) as file:
        return dict(json.loads(str(file["about"])))


def write_cards(shelf: Path, rows: Sequence[Row], measured: Sequence[Row]) -> list[Path]:
    """Write the card of each policy, and the list of all of them; `measured`: the rows of heritability.csv."""
    by_digest = {row["digest"]: row for row in rows if row["kind"] != "sample"}
    shares = {row["digest"]: row for row in measured if row["engine"] == "mujoco"}
    made, lines = [], []
    for policy in sorted(shelf.glob("*.npz")):
        about = read(policy)
        row = by_digest[about["state_sha256"]]
        path = policy.with_suffix(".md")
        path.write_text(card(policy, about, row, shares.get(about["state_sha256"])), encoding="utf-8")
        made.append(path)
        lines.append(f"| [{policy.stem}]({path.name}) | {trained(row)} | {skill(row)} |\n")
    path = shelf / "README.md"
    path.write_text(HEAD + "".join(lines), encoding="utf-8")
    return [*made, path]


def trained(row: Row) -> str:
    """Return how a policy was trained, in one line."""
    robot = ROBOTS[row["robot"]] + (ENGINES[row["engine"]] if row["robot"] in ("cheetah", "ant") else "")
    rules = f", {RULES.get(row['rules'], row['changed'])}" if row["robot"] in ("cheetah", "ant") else ""
    size, direction = int(row["population"]), float(row["direction"] or 0)
    rules += f", {row['rollouts']} {row['starts']} starts for each individual" if int(row["rollouts"] or 1) > 1 else ""
    way = f" towards {direction:g} degrees" if direction else ""
    sizes = f"{row['generations']} generations, N = {size:,}, seed {row['seed']}"
    return f"{robot}: {row['algorithm']}{way}{rules}; {sizes}"


def skill(row: Row) -> str:
    """Return what the offspring of the last generation did, in one line."""
    distance = f"mean distance {number(row, 'distance_last'):.1f}"
    if row.get("left_last"):
        return f"{distance}; {100 * number(row, 'left_last'):.0f} % left, {100 * number(row, 'right_last'):.0f} % right"
    near = f"{100 * number(row, 'near_origin_last'):.0f} % end within 5 units"
    ring = number(row, "ring_last") / number(row, "distance_last")
    return f"{distance}; {near}; thinnest of eight directions {ring:.2f} of an even ring"


def heritable(row: Row) -> str:
    """Return how much of the variety a mutation shows from other starts, too, in one line."""
    words = f"{100 * number(row, 'share'):.0f} % of the variance belong to the mutation, not to the start"
    if row.get("reliable"):
        words += f"; {100 * number(row, 'reliable'):.0f} % of the mutations walk reliably, into "
        words += f"{row['reliable_sectors']} of eight directions"
    return f"{words} ({row['mutations']} mutations from {row['starts']} unseen starts)"


def card(policy: Path, about: dict[str, Any], row: Row, measured: Row | None) -> str:
    """Return the card of a policy."""
    adapted = [(way, number(row, f"adapt_{way}")) for way in ("left", "right")]
    shown = ", ".join(f"{way} {value:.1f}" for way, value in adapted if math.isfinite(value))
    cheetah = "cheetah" in row["robot"]
    path = f"shelf:{policy.stem}"
    direction = "left" if cheetah else "90"
    unseen = f"ees-mpi measure {path} --std 0.02 --count 200 --starts 20"
    facts = {
        "trained": trained(row),
        "run": f"`{row['run']}` of `{row['block']}.h5`, {row['date']}, {row['machine']}",
        "rollouts": f"{row['steps']} steps; {about['training_steps']:.3g} steps in all",
        "mutations of the last generation": skill(row),
        "adaptation, best of 40 mutations from ten other starts": shown or "not measured",
        "from other starts": heritable(measured) if measured else f"not measured; `{unseen}` measures it",
        "state_sha256 of the run": f"`{about['state_sha256']}`",
        "sha256 of this file": f"`{hashlib.sha256(policy.read_bytes()).hexdigest()}`",
    }
    lines = [f"# {policy.stem}\n", "| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in facts.items())]
    preset = f"{row['robot']}-es" + ("-authors" if row["rules"] == "released" else "")
    engine = " --set task.engine=mujoco" if row["robot"] in ("cheetah", "ant") and row["engine"] == "mujoco" else ""
    lines += [
        "\nWhat it can do:\n",
        f"    ees-mpi sample {path} --count 100 --out offspring.h5      # 100 mutations and where they end",
        f"    ees-mpi adapt {path} --direction {direction} --out adapted.h5     # the best of 40 mutations",
        f"    ees-mpi measure {path} --count 100 -o measured.h5         # evolvability at several stds",
        f"    ees-mpi train {preset} --from {path}{engine}      # standard ES that starts here",
    ]
    return "\n".join(lines) + "\n"
