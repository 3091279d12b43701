"""Groups of runs, by the names that claims, tables, figures and pages have for them, each by seed.

    text.ant.MaxEnt        trainings, by rules, robot and algorithm; also text.interference.MaxEnt
    MAML                   its trainings: those of the plan, or six shorter ones while the plan has fewer
    offspring.text.MaxEnt  1,000 mutations of each cheetah; offspring.MAML, and quarter.MAML with a quarter of the std
    seeding.text.MaxEnt    standard ES towards +x on the ant, by the network that it began with
    text.split.MaxEnt      mixtures on the ant: `mixture` of random networks, or a split one
    ant.four               the networks of an arm of heritability: endpoints, and their measurement in the replica
    bullet.ant.four        the same, and their measurement in Bullet
    ant-maxent-authors-unit    the trainings of an arm of the plan's exploration, measured or not
    gymnasium-ant-maxent   any single network that was measured, by its name
    bullet.ant-es-authors  mutations in Bullet of networks of these runs, with numbers of their runs in the replica

Some pages have names of their own for a few more: the end of `groups_of`.
"""

import csv
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from places import FAR
from plan import ARMS

NUMBERS, MEASURED = "numbers.csv", "heritability.csv"
Row = dict[str, str]
Groups = Mapping[str, Sequence[Row]]
RULES = {"text": "text's rules", "released": "released rules"}
PLANNED = 20  # the first seed of the sixth plan
PAPERS = {"engine": "mujoco", "generations": "100", "population": "10000", "rollouts": "1", "starts": "fixed"}
RING = 1 / 3  # least evenness of an even ring


def read(path: Path) -> list[Row]:
    """Read numbers.csv or heritability.csv."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def read_groups(results: Path) -> Groups:
    """Return the groups of numbers.csv and heritability.csv in a folder."""
    return groups_of(read(results / NUMBERS), read(results / MEASURED))


def number(row: Row, name: str) -> float:
    """Return an endpoint of a run; NaN if the run does not have it."""
    return float(row.get(name) or math.nan)


def column(rows: Iterable[Row], name: str) -> list[float]:
    """Return an endpoint of those runs that have it."""
    return [value for row in rows if math.isfinite(value := number(row, name))]


def has_ring(run: Row, ending: str = "_90_99") -> bool:
    """Return whether an ant has an even ring."""
    return number(run, f"evenness{ending}") >= RING and number(run, f"distance{ending}") >= FAR


def planned(row: Row) -> bool:
    """Return whether a run belongs to the sixth plan."""
    return int(row["seed"]) >= PLANNED


def of_plan(runs: Sequence[Row]) -> list[Row]:
    """Return the runs of MAML of the sixth plan, or those of the first while the sixth has fewer."""
    return max(list(filter(planned, runs)), [row for row in runs if not planned(row)], key=len)


def name_of(row: Row) -> str:
    """Return the group of a run; empty if it has none of its own."""
    rules, robot, algorithm, kind = (row[name] for name in ("rules", "robot", "algorithm", "kind"))
    trained = f"{rules}.{robot}.{algorithm}"
    match kind:
        case "training" if algorithm == "MAML":
            return "MAML"
        case "training" if row["block"] == "exploration":
            return row["run"].partition("-mujoco")[0]
        case "training" if robot == "interference":
            return trained
        case "training" if row.items() >= PAPERS.items() and row["direction"] in ("", "0"):
            return trained if planned(row) or robot == "cheetah" else ""  # cheetahs of all plans
        case "sample" if algorithm == "MAML":
            return "offspring.MAML" if row["std"] == "0.02" else "quarter.MAML"
        case "sample" if row["engine"] == "mujoco":
            return f"offspring.{rules}.{algorithm}"
        case "seeding":
            return f"seeding.{rules}.{row['start']}"
        case "mixture" | "split":
            return f"{rules}.{kind}.{algorithm}"
    return ""


def groups_of(rows: Sequence[Row], measured: Sequence[Row] = ()) -> Groups:
    """Return the groups of the rows of numbers.csv and heritability.csv; one without runs is empty."""
    found: defaultdict[str, list[Row]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: (int(row["seed"]), row["run"])):
        found[name_of(row)].append(row)
    for name in ("MAML", "offspring.MAML", "quarter.MAML"):
        found[name] = of_plan(found[name])
    # By the text's rules the first updates of the trainings are those from a random network.
    found["seeding.text.random"] = found["text.ant.standard ES"]
    found |= networks_of(rows, measured, "mujoco") | networks_of(rows, measured, "bullet", "bullet.")
    found |= {row["mean"]: [row] for row in measured if row["engine"] == "mujoco"}
    # Some groups have a name of their own in the pages.
    found |= {kind: found[f"text.{kind}.MaxVar"] + found[f"text.{kind}.MaxEnt"] for kind in ("mixture", "split")}
    found["cheetah.whitened"] = found["other.cheetah.MaxEnt"]
    ants = [row for key in ARMS if key.startswith("ant.") for row in found[key]]
    found["ant.even"] = [row for row in ants if row["rollouts"] == "1" and has_ring(row)]
    return found | in_bullet(rows)


def networks_of(rows: Sequence[Row], measured: Sequence[Row], engine: str, before: str = "") -> dict[str, list[Row]]:
    """Return what is known of the networks of each arm of heritability: endpoints and the measurement in an engine."""
    trained = {row["digest"]: row for row in rows if row["kind"] == "training"}
    means = {row["mean"]: row for row in measured if row["engine"] == engine}
    found = {}
    for key, arm in ARMS.items():
        names = [f"{arm['name']}-mujoco-seed{seed}" for seed in arm["seeds"]]
        found[before + key] = [{**trained[means[name]["digest"]], **means[name]} for name in names if name in means]
    return found


def in_bullet(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Return samples of networks in Bullet, with some numbers of their runs in the replica, by the name of these."""
    homes = {row["digest"]: row for row in rows if row["kind"] == "training"}
    found: dict[str, list[Row]] = {}
    for row in rows:
        if row["kind"] == "sample" and row["engine"] == "bullet":
            home = homes[row["start_digest"]]
            over = number(row, "distance_last") / number(home, "distance_last")
            here = {f"replica_{name}": home[name] for name in ("left_last", "evenness_last")}
            name = home["run"].partition("-mujoco")[0]
            found.setdefault(f"bullet.{name}", []).append({**row, **here, "distance_over_replica": f"{over}"})
    return found


def by_words(groups: Groups, arms: Iterable[str]) -> dict[str, list[Row]]:
    """Return the networks of those arms that have some, by the words that tables have; two may have the same."""
    found: dict[str, list[Row]] = {}
    for arm in arms:
        found.setdefault(ARMS[arm]["shown"], []).extend(groups[arm])
    return {words: runs for words, runs in found.items() if runs}
