"""Groups of runs of numbers.csv: the arms of the paper and of heritability, what goes on from them, and MAML."""

import csv
import math
from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import Path

from plan import ARMS, arm_run

Row = dict[str, str]
Arms = dict[tuple[str, str, str], list[Row]]  # the runs by rules, robot and algorithm
Networks = dict[str, list[Row]]  # measured ones by robot and arm of heritability, such as ant.four
MAXVAR, MAXENT, STANDARD = "MaxVar", "MaxEnt", "standard ES"
RULES = {"text": "text's rules", "released": "released rules"}
PLANNED = 20  # the first seed of the sixth plan
PAPERS_ROBOTS = {"engine": "mujoco", "population": "10000", "rollouts": "1", "starts": "fixed"}


def read(path: Path) -> list[Row]:
    """Read numbers.csv."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def number(row: Row, name: str) -> float:
    """Return an endpoint of a run; NaN if the run does not have it."""
    return float(row.get(name) or math.nan)


def column(rows: Iterable[Row], name: str) -> list[float]:
    """Return an endpoint of those runs that have it."""
    return [value for row in rows if math.isfinite(value := number(row, name))]


def select(rows: Iterable[Row], **wanted: str) -> list[Row]:
    """Return the rows with these facts, by seed."""
    found = [row for row in rows if all(row[name] == value for name, value in wanted.items())]
    return sorted(found, key=lambda row: (int(row["seed"]), row["run"]))


def trainings(rows: Iterable[Row], robot: str, algorithm: str, rules: str) -> list[Row]:
    """Return the trainings of the paper's robots towards +x, N = 10,000, by seed."""
    facts = {"robot": robot, "algorithm": algorithm, "rules": rules, "kind": "training"}
    return [row for row in select(rows, **facts, **PAPERS_ROBOTS) if row["direction"] in ("", "0")]


def planned(rows: Iterable[Row]) -> list[Row]:
    """Return the runs of the sixth plan."""
    return [row for row in rows if int(row["seed"]) >= PLANNED]


def of_plan(rows: Iterable[Row]) -> list[Row]:
    """Return the runs of MAML of the sixth plan, or those of the first while the sixth has fewer."""
    runs = list(rows)
    return max(planned(runs), [row for row in runs if int(row["seed"]) < PLANNED], key=len)


def arms_of(rows: Sequence[Row]) -> Arms:
    """Return the trainings of 100 generations: those of the plan, and the released cheetahs of all plans."""
    found: Arms = {}
    for rules, robot, name in product(RULES, ("cheetah", "ant"), (STANDARD, MAXVAR, MAXENT)):
        runs = [row for row in trainings(rows, robot, name, rules) if row["generations"] == "100"]
        found[rules, robot, name] = runs if (rules, robot) == ("released", "cheetah") else planned(runs)
    return found


def maml_of(rows: Iterable[Row]) -> list[Row]:
    """Return the runs of MAML: the plan's with 1,250 iterations, or the first plan's six with 375."""
    return of_plan(select(rows, algorithm="MAML", kind="training"))


def offspring_of(rows: Sequence[Row], name: str, rules: str = "text", std: str = "0.02") -> list[Row]:
    """Return samples of 1,000 mutations of cheetahs."""
    same = {"robot": "cheetah", "kind": "sample", "engine": "mujoco", "population": "1000"}
    runs = select(rows, algorithm=name, rules=rules, std=std, **same)
    return of_plan(runs) if name == "MAML" else runs


def adapted(rows: Sequence[Row]) -> Arms:
    """Return the cheetahs that were adapted, MAML first."""
    arms = {key: [run for run in runs if run["adapt"]] for key, runs in arms_of(rows).items()}
    return {("text", "cheetah", "MAML"): maml_of(rows)} | {key: runs for key, runs in arms.items() if runs}


def seeding_runs(rows: Sequence[Row], whose: str) -> dict[str, list[Row]]:
    """Return the runs of standard ES towards +x on the ant, by start.

    By the text's rules the first updates of the trainings are those from a random network.
    """
    found: dict[str, list[Row]] = {}
    random = trainings(rows, "ant", STANDARD, whose) if whose == "text" else []
    for row in select(rows, robot="ant", kind="seeding", engine="mujoco", population="10000", rules=whose) + random:
        found.setdefault(row["start"], []).append(row)
    return found


def mixture_runs(rows: Sequence[Row], kind: str) -> list[Row]:
    """Return the mixtures (of random networks, or a split one) on the ant, by the text's rules."""
    return select(rows, robot="ant", kind=kind, rules="text")


def networks_of(rows: Iterable[Row], measured: Iterable[Row], engine: str = "mujoco") -> Networks:
    """Return what is known of the networks of each arm of heritability, by seed: endpoints and the measurement."""
    trained = {row["digest"]: row for row in rows if row["kind"] == "training"}
    means = {row["mean"]: row for row in measured if row["engine"] == engine}
    found: Networks = {}
    for robot, arms in ARMS.items():
        for key, arm in arms.items():
            networks = found[f"{robot}.{key}"] = []
            for seed in arm["seeds"]:
                row = means.get(f"{arm_run(robot, key)}-mujoco-seed{seed}")
                if row:
                    networks.append({**trained.get(row["digest"], {}), **row, "seed": f"{seed}"})
    return found


def by_words(arms: Networks, robot: str, keys: Sequence[str] = ()) -> Networks:
    """Return the networks of a robot by the words that tables have for their arm; `keys`: these arms only."""
    found: Networks = {}
    for key in keys or ARMS[robot]:
        found.setdefault(ARMS[robot][key]["shown"], []).extend(arms[f"{robot}.{key}"])
    return found
