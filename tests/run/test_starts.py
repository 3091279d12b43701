"""`task.starts`: which individuals and generations share the starts of their rollouts."""

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from support.gpu_batch import on_the_cpu
from support.program import done, refusal, sets
from support.run_files import edited
from support.small_runs import walk

from ees_mpi import open_run
from ees_mpi.config import Config, load
from ees_mpi.generation import Batch, Outcome, mean_behavior, mean_outcome
from ees_mpi.noise import Noise
from ees_mpi.ranks import Ranks
from ees_mpi.run import on_gpus
from ees_mpi.run.parts import evolution_of, first_state, open_evaluator, starts_of

TINY = ("task.steps=4", "task.hidden=[4]", "population.size=4", "noise.size=20000", "run.generations=2")


def config_of(*settings: str) -> Config:
    return load("cheetah-maxvar", [*TINY, *settings])


@pytest.mark.parametrize("dim", [1, 2])
def test_the_mean_of_many_individuals_has_the_bits_of_the_mean_of_each(dim: int) -> None:
    by_start = np.random.default_rng(0).normal(size=(20, 40, dim)) * 10.0 ** np.arange(40)[:, None]
    alone = [mean_outcome([Outcome(0, tuple(place), 0.0, 1) for place in one]).behavior for one in by_start.tolist()]
    np.testing.assert_array_equal(mean_behavior(by_start), alone)


@pytest.mark.parametrize(("robot", "engine"), [("cheetah", "bullet"), ("ant", "mujoco")])
def test_outcomes_are_means_over_the_starts_and_the_file_keeps_each(robot: str, engine: str, tmp_path: Path) -> None:
    pytest.importorskip("pybullet" if engine == "bullet" else "mujoco", exc_type=ImportError)
    device = [] if engine == "bullet" else ["task.device=cpu"]
    several = (*TINY, f"task.engine={engine}", *device, "task.rollouts=2", "task.starts=own")
    out = tmp_path / "run.h5"
    done("train", f"{robot}-maxvar", *sets(*several, "task.observation_share=1"), "--out", out)
    with h5py.File(out) as file:
        axes = [axis.keys()[0] for axis in file["generations/behavior_by_start"].dims]
    assert axes == ["generation", "individual", "start", "behavior_dim"]
    with open_run(out) as run:
        task, by_start = run.config.task, run["behavior_by_start"][:]
        assert by_start.shape == (2, 4, 2, task.behavior_dim) and (run["length"][:] == 8).all()
        np.testing.assert_array_equal(run["behavior"][:], by_start.mean(axis=2))
        assert run["observation_count"][1] == 4 * 8
        z, statistics = run.individual(1, 2), run.observation_statistics(1)
        for place, seed in enumerate(starts_of(run.config).seeds(1, 4)[2].tolist()):
            alone = task.open(seed).evaluate(0, z, *statistics, False)
            np.testing.assert_array_equal(by_start[1, 2, place], alone.behavior)
    assert "the same bits" in done("verify", out).stdout
    assert "the same states" in done("verify", out, "--updates").stdout
    done("sample", out, "--count", 3, "-o", tmp_path / "sample.h5")
    with open_run(tmp_path / "sample.h5") as sample:
        assert sample["behavior_by_start"].shape[1:3] == (3, 2)


def test_verify_finds_changed_behaviours_that_keep_their_mean(tmp_path: Path) -> None:
    pytest.importorskip("pybullet", exc_type=ImportError)
    out = walk(tmp_path / "run.h5", "cheetah-maxvar", *TINY, "task.rollouts=2", "task.starts=own")
    assert "the same bits" in done("verify", out).stdout
    with edited(out) as file:
        file["generations/behavior_by_start"][1, 2] = file["generations/behavior_by_start"][1, 2][::-1]
    code, line = refusal("verify", out)
    assert code == 1 and "generation 1" in line and "individual 2" in line
    assert "OTHER BITS from one of its starts" in done("replay", out, "--individual", 2).stdout


class OnCpus:
    """Evaluates the batches of a GPU one by one on the CPU."""

    capacity = 5

    def __init__(self, task: Any, noise: Any):
        self._task, self._noise = task, noise

    def evaluate_batch(self, batch: Batch, mean: Any, std: Any) -> list[Outcome]:
        return [on_the_cpu(self._task, batch, self._noise, place, batch.std) for place in range(len(batch.index))]

    def close(self) -> None:
        pass


@pytest.mark.parametrize("starts", ["own", "fixed"])
def test_batches_of_a_gpu_have_the_same_starts(starts: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pybullet", exc_type=ImportError)
    config = config_of(f"task.starts={starts}", "task.rollouts=3", "task.observation_share=1")
    noise, state, found = Noise(config.noise_seed, config.noise.size), first_state(config), []
    work = evolution_of(config, noise).ask(state)
    monkeypatch.setattr(on_gpus, "choose_device", lambda config, ranks, wanted: (wanted, {0: "0"}))
    monkeypatch.setattr(on_gpus.gpus, "describe", lambda ranks, drivers: {})
    monkeypatch.setattr(type(config.task), "open_batches", lambda self, seed, table, *more: OnCpus(self, table))
    for device in ("cpu", "cuda"):
        found.append(open_evaluator(config, noise, Ranks(), device).evaluate(work))
    for one, other in zip([found[0].outcomes, found[0].means], [found[1].outcomes, found[1].means], strict=True):
        np.testing.assert_array_equal(one.by_start, other.by_start)
        np.testing.assert_array_equal(one.observations, other.observations)
        assert (one.length == 12).all() and (other.length == 12).all()
    assert len(found[0].outcomes.observations) == 4
