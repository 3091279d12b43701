"""The numbers that README.md, results.md, heritability.md and fidelity.md quote in running text.

In a page a number stands before its source: `21<!-- ant.whiten: distance_last_10 -->`. A source has a group of runs,
or several with +, then a column of numbers.csv or heritability.csv, and perhaps what to do with its values:

    ant.four: realised               their mean; `low` and `high` are the least and the largest, `sum` is their sum
    ant.four: ring from 1/3          how many runs have at least that
    ant.whiten: ring 10              the value of seed 10
    ant.ranks: |correlation_last|    the same without signs
    ant.four: runs                   the number of runs
    A / B: heritable                 the ratio of geometric means of two groups; `low` and `high` are its 90 % interval,
                                     `p` is of Mann and Whitney, and `paired` compares runs of the same seed
    A / B: single_90_99/distance_90_99     the same of two columns

`python jobs/paper/results.py quoted` prints the sources and values of all pages; a test compares them with the pages.
"""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from groups import Groups, Row, column, number
from rules import mann_whitney, ratio


def quoted(source: str, groups: Groups) -> float:
    """Return the number that a page quotes with this source."""
    who, _, what = source.partition(": ")
    name, *how = what.split()
    first, *second = [[row for name in names.split("+") for row in groups[name]] for names in who.split(" / ")]
    if not all((first, *second)):
        raise KeyError(source)
    if second:
        return compared(first, second[0], name, how)
    values = [abs(value) if name.startswith("|") else value for value in column(first, name.strip("|"))]
    match how:
        case []:
            return float(len(first) if name == "runs" else np.mean(values))
        case ["from", least]:
            return sum(value >= Fraction(least) for value in values)
        case ["low" | "high" | "sum" as which]:
            return float({"low": min, "high": max, "sum": sum}[which](values))
        case [seed]:
            (run,) = (row for row in first if row["seed"] == seed)
            return number(run, name)
    raise KeyError(source)


def compared(first: Sequence[Row], second: Sequence[Row], name: str, how: Sequence[str]) -> float:
    """Return the ratio of two groups, a limit of its interval, or the p of a test."""
    above, below = name.split("/") if "/" in name else (name, name)
    paired = "paired" in how
    if paired:
        by_seed = {row["seed"]: row for row in second}
        first = [row for row in first if row["seed"] in by_seed]
        second = [by_seed[row["seed"]] for row in first]
    pair = column(first, above), column(second, below)
    if "p" in how:
        return mann_whitney(*pair)[0]
    found = ratio(*pair, paired)
    return found.low if "low" in how else found.high if "high" in how else found.value
