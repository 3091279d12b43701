"""Numbers of raw places: sectors, rings, reliable mutations; and heritability.csv is that of the blocks."""

import csv
import shutil
from pathlib import Path

import endpoints
import groups
import numpy as np
import places
import pytest
import results
from blocks import read_block, read_by_start, write_block
from support.program import needs_results

pytestmark = needs_results


def around(turns: object, distance: object = 6.0) -> np.ndarray:
    """Return places at these parts of a turn."""
    angle = 2 * np.pi * np.asarray(turns)
    return np.asarray(distance)[..., None] * np.stack([np.cos(angle), np.sin(angle)], axis=-1)


def test_reliable_mutations_are_chosen_by_half_of_the_starts_and_judged_by_the_others() -> None:
    ways = [
        [0.05] * 8,
        [0.45] * 4 + [0.55, 0.45, 0.45, 0.45],  # a tenth of a turn is another sector, but near
        [0.3] * 4 + [0.3, 0.8, 0.6, 0.05],  # luck
        [0.7] * 4 + [0.2] * 4,  # is reliable both times, but not in one direction
        [0.1, 0.6, 0.1, 0.6] + [0.7] * 4,  # becomes reliable
        [0.9] * 8,  # does not go far
    ]
    raw = around(ways, np.array([6.0, 6.0, 6.0, 6.0, 6.0, 4.0])[:, None] * np.ones(8))
    found = places.held_out(raw)
    assert found["same_way"] == (4 + 4 + 1 + 0) / 16  # of the first four, which are chosen
    assert found["held_out_sectors"] == 2 and found.items() <= places.measured(raw).items()
    assert places.measured(raw)["reliable"] == 2 / 6  # by all starts, which both choose and judge


def test_luck_that_looks_reliable_is_not_so_from_other_starts() -> None:
    generator = np.random.default_rng(0)
    found = places.held_out(around(generator.random((20_000, 6))))  # of three random directions some agree
    assert found["same_way"] == pytest.approx(1 / 4, abs=0.05)
    assert places.held_out(around(generator.random((20, 40)))) == {"held_out_sectors": 0}


def test_a_block_keeps_raw_places_as_float16_and_gives_their_row(tmp_path: Path) -> None:
    block = results.RESULTS / "ant-ring.h5"
    raw, runs = read_by_start(block), {run.name: run for run in read_block(block)}
    name = "ant-maxent-authors-whiten-mujoco-seed6"
    assert raw[f"{name}-starts"].shape == (200, 20, 2) and raw[f"{name}-starts"].dtype == np.float16
    write_block(tmp_path / "few.h5", [runs[name], runs[f"{name}-starts"]], {f"{name}-starts": raw[f"{name}-starts"]})
    path = endpoints.write_measured(tmp_path)
    with path.open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert row["mean"] == name and row["engine"] == "mujoco" and row["digest"] == runs[name].about["state_sha256"]
    assert float(row["heritable"]) == pytest.approx(25.05, abs=0.01) and float(row["realised"]) < 0.1


def test_what_is_not_the_same_with_another_rounding_is_chance() -> None:
    draw = np.random.default_rng(0).normal
    mutation, start, both = draw(0, 4, (300, 1, 2)), draw(0, 2, (1, 300, 2)), draw(0, 3, (300, 300, 2))
    first, again = (mutation + start + both + draw(0, 1, (300, 300, 2)) + shift for shift in (0, 50))
    parts = {"mutation": 16, "start": 4, "both": 9, "chance": 1}
    assert places.twice(first, again) == pytest.approx({name: part / 30 for name, part in parts.items()}, abs=0.03)
    first[0, 0] = np.nan  # an invalid rollout: its mutation is left out
    assert places.twice(first, again)["chance"] == pytest.approx(1 / 30, abs=0.003)


def test_heritability_csv_is_that_of_the_blocks(tmp_path: Path) -> None:
    table = results.RESULTS / groups.MEASURED
    for path in (table, *results.RESULTS.glob("*.h5")):
        shutil.copy(path, tmp_path)
    written = endpoints.write_measured(tmp_path).read_text(encoding="utf-8")
    kept = table.read_text(encoding="utf-8")
    assert written.splitlines()[0] == kept.splitlines()[0]
    for mine, theirs in zip(csv.reader(written.splitlines()), csv.reader(kept.splitlines()), strict=True):
        assert mine[:3] == theirs[:3]
        for one, other in zip(mine[3:], theirs[3:], strict=True):
            assert one == other or float(one) == pytest.approx(float(other), rel=1e-4), mine[0]
