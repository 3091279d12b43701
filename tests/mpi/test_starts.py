"""Several starts: the same bits on any number of ranks, after a kill, and in a loop of ask and tell."""

import os
import signal
import subprocess
from pathlib import Path

import numpy as np
import pytest
from support.processes import committed, rank_processes, wait_until
from support.program import TIMEOUT, command, done, environment, info, sets
from support.run_files import assert_same_bits

import ees_mpi
from ees_mpi.config import load
from ees_mpi.generation.state import first_state

TINY = ("task.steps=4", "task.hidden=[4]", "population.size=6", "noise.size=20000", "task.rollouts=2")
pytest.importorskip("pybullet", exc_type=ImportError)


def words(out: Path, starts: str, generations: int = 3) -> list[object]:
    keys = (*TINY, f"task.starts={starts}", "objective.name=repeatable", f"run.generations={generations}")
    return ["train", "cheetah-maxvar", *sets(*keys), "--seed", 5, "--out", out]


@pytest.mark.standing_ranks
@pytest.mark.parametrize("starts", ["own", "common"])
def test_same_bits_on_one_and_three_ranks(starts: str, tmp_path: Path) -> None:
    alone, three = tmp_path / "alone.h5", tmp_path / "three.h5"
    done(*words(alone, starts))
    done(*words(three, starts), ranks=3)
    assert_same_bits(three, alone)


@pytest.mark.standing_ranks
@pytest.mark.slow
def test_a_killed_run_ends_with_the_bits_of_an_undisturbed_one(tmp_path: Path) -> None:
    killed, whole = tmp_path / "killed.h5", tmp_path / "whole.h5"
    line = command(*words(killed, "own", 5000), ranks=3)
    process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
    wait_until(lambda: process.poll() is not None or committed(killed))
    os.kill(rank_processes(killed)[-1], signal.SIGKILL)
    process.communicate(timeout=TIMEOUT)
    kept = int(str(info(killed)["generations"]))
    assert 0 < kept < 5000
    done("resume", killed, "--generations", kept + 2, ranks=2)
    done(*words(whole, "own", kept + 2))
    assert_same_bits(killed, whole)


def test_a_loop_of_ask_and_tell_has_the_bits_of_train(tmp_path: Path) -> None:
    line, out = [*words(tmp_path / "run.h5", "own"), *sets("task.observation_share=0")], tmp_path / "loop.h5"
    done(*line)
    keys = [str(line[place + 1]) for place, word in enumerate(line) if word == "--set"]
    config = load("cheetah-maxvar", [*keys, "run.seed=5"])
    task, zero = config.task, np.zeros(config.task.observation_dim)
    sections = {name: part for name, part in config.sections().items() if name != "task"}
    first = first_state(config).mean[0]
    with ees_mpi.Strategy(first, config=sections, rollouts=2, starts="own", record=out) as es:
        for _ in range(3):
            z, seeds = es.ask(), es.seeds
            places = [
                [task.starting_with(seed).open(0).evaluate(0, one, zero, zero + 1, False).behavior for seed in of_one]
                for one, of_one in zip(z, seeds.tolist(), strict=True)
            ]
            es.tell(places)
    with ees_mpi.open_run(tmp_path / "run.h5") as run, ees_mpi.open_run(out) as loop:
        for name in ("mean", "behavior", "behavior_by_start"):
            np.testing.assert_array_equal(run[name][:], loop[name][:])
        np.testing.assert_array_equal(run.state_arrays()["mean"], loop.state_arrays()["mean"])
    assert "the same states" in done("verify", out, "--updates").stdout
