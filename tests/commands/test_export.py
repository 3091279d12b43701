"""`ees-mpi export`: a policy acts as ours, every metric comes back, and nothing of the user is replaced."""

import csv
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.program import CHECKOUT, done, ees, refusal, sets

import ees_mpi
from ees_mpi import open_run
from ees_mpi.commands.export import export_policy
from ees_mpi.config import read_source
from ees_mpi.errors import ConfigError
from ees_mpi.generation import mean_std
from ees_mpi.policies import MLP
from ees_mpi.tasks.gymnasium import task as task_module

PAGE = (CHECKOUT / "ees_mpi" / "docs" / "tutorial.md").read_text(encoding="utf-8")


def loaded(policy: Path) -> Callable[[Any], Any]:
    """Return the policy of a file, by the lines of the page."""
    lines = re.findall(r"^def load\(path\):\n.*?^    return act$", PAGE, re.DOTALL | re.MULTILINE)[0]
    names: dict[str, Any] = {"np": np}
    exec(lines, names)
    return names["load"](policy)  # type: ignore[no-any-return]


@pytest.mark.parametrize("choice", [[], ["--generation", 0, "--individual", 5]])
def test_an_exported_policy_acts_as_ours_by_the_lines_of_the_page(
    walked: Path, tmp_path: Path, choice: list[object]
) -> None:
    out = tmp_path / "policy.npz"
    assert done("export", walked, "--policy", *choice, "-o", out).stdout.split() == [str(out)]
    policy, observations = MLP((26, 256, 256, 6)), 3 * np.random.default_rng(0).normal(size=(7, 26)).astype(np.float32)
    with open_run(walked) as run:
        state = run.state_arrays()
        flat, statistics = state["mean"][0], mean_std(state["observations"])
        if choice:
            flat, statistics = run.individual(0, 5), (run["observation_mean"][0], run["observation_std"][0])
    policy.load(np.ascontiguousarray(flat))
    policy.normalise(*statistics)
    act, expected = loaded(out), [policy.act(each).copy() for each in observations]
    np.testing.assert_allclose(act(observations), expected, rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(act(observations[0]), expected[0], rtol=1e-5, atol=1e-8)


BEHAVIOR = "def first(rollout):\n    return [rollout.observations[-1][0]]\n"


def test_an_export_needs_no_environment(inside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EES_MPI_TRUST")
    Path("fleeting_behavior.py").write_text(BEHAVIOR)
    base = read_source("interference-maxvar").split("[task]")
    task = "[task]\nname='gymnasium'\nenv='CartPole-v1'\nhidden=[5]\nsteps=4\nbehavior='fleeting_behavior:first'\n"
    Path("own.toml").write_text(base[0] + task + "[population]" + base[1].split("[population]")[1])
    done("train", "own.toml", *sets("population.size=4", "run.generations=2", "noise.size=1000"), "--out", "run.h5")
    Path("fleeting_behavior.py").unlink()
    del sys.modules["fleeting_behavior"]
    monkeypatch.setattr(task_module, "make", lambda *arguments: pytest.fail("the environment was made"))
    done("export", "run.h5", "--policy")
    assert loaded(Path("policy.npz"))(np.ones(4)).shape == (2,)


def test_one_of_several_means_must_be_chosen(species: Path, tmp_path: Path) -> None:
    out = tmp_path / "p.npz"
    with open_run(species) as run:
        with pytest.raises(ConfigError, match="has 2 means"):
            export_policy(run, out, None, None)
        with pytest.raises(ConfigError, match="--component 2: expected 0 to 1"):
            export_policy(run, out, None, None, 2)
        means = run.state_arrays()["mean"]
        for component in (0, 1):
            export_policy(run, out, None, None, component, overwrite=component > 0)
            with np.load(out) as file:
                found = np.concatenate([file[name].ravel() for name in file["layers"]])
            assert sorted(found.tolist()) == sorted(means[component].tolist())


def test_adapt_writes_the_best_mutation_as_a_policy(walked: Path, tmp_path: Path) -> None:
    out, study = tmp_path / "left.npz", tmp_path / "a.h5"
    words: dict[str, Any] = {"mutations": 3, "evaluations": 1, "out": study, "policy": out}
    found = ees_mpi.adapt(walked, "left", **words)
    best = found.arrays["mutations/behavior"][found.attributes["best"]]
    with ees_mpi.measure(out, count=2) as measured, open_run(walked) as run:
        assert measured["behavior_of_mean"][0].tobytes() == best.tobytes()
        assert measured["std"][1].max() == np.float32(run.config.population.std)  # once the run's own


@pytest.mark.parametrize("words", [("--policy", "-o", "kept.npz"), ("--csv", "-o", "kept.csv")])
def test_an_existing_file_is_replaced_only_on_request(walked: Path, inside: Path, words: tuple[str, ...]) -> None:
    kept = Path(words[-1])
    kept.write_text("kept")
    code, line = refusal("export", walked, *words)
    assert code == 3 and "exists already; use --overwrite" in line and os.listdir() == [kept.name]
    done("export", walked, *words, "--overwrite")
    assert kept.read_bytes() != b"kept"


def test_the_table_gives_back_every_metric(species: Path, tmp_path: Path) -> None:
    path, out = species, tmp_path / "run.csv"
    assert ees("export", path, "--csv", "-o", out).stdout.split() == [str(out)]
    with open(out, newline="") as file:
        rows = list(csv.DictReader(file))
    with open_run(path) as run:
        assert [int(row["generation"]) for row in rows] == list(range(run.generations))
        for name in run:
            if len(run[name].shape) == 1 and run[name].dtype.kind == "f":
                assert np.array([float(row[name]) for row in rows]).tobytes() == np.asarray(run[name][:]).tobytes()
        read = [[float(row[f"behavior_of_mean_{b}"]) for b in range(run["behavior"].shape[2])] for row in rows]
        assert np.array(read).tobytes() == np.asarray(run["behavior_of_mean"][:]).tobytes()
        assert rows[1]["fitness_of_mean"] == "nan" and len(rows[0]["state_sha256"]) == 64
