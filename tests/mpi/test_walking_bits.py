"""The walking tasks: the same bits for any number of ranks, through resume, and on re-evaluation."""

import json
import signal
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from support.program import CHECKOUT, done, info, python, run, sets
from support.run_files import assert_same_bits

pytestmark = pytest.mark.standing_ranks

SMALL = ["population.size=10", "task.steps=25", "noise.size=200000", "run.generations=4", "run.evaluate_mean_every=2"]
SMALL += ["task.observation_share=0.4"]
SELF_KILL = CHECKOUT / "tools" / "chaos_parts" / "self_kill.py"


def walk(out: Path, preset: str, *more: str, ranks: int | None = None) -> CompletedProcess[str]:
    return done("train", preset, *sets(*SMALL, *more), "--out", out, ranks=ranks)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("preset", "first", "second"),
    [("cheetah-maxent", 3, 2), ("gymnasium-cheetah-maxent", 2, 3)],
)
def test_same_bits_for_any_number_of_ranks_through_resume_and_silence_but_for_our_own_lines(
    preset: str, first: int, second: int, tmp_path: Path
) -> None:
    alone, path = tmp_path / "alone.h5", tmp_path / "run.h5"
    cpu = ["task.device=cpu"] if preset.startswith("mujoco") else []
    walk(alone, preset, *cpu)
    finished = walk(path, preset, *cpu, "run.generations=2", ranks=first)
    lines = finished.stdout.splitlines()
    assert finished.stderr == "" and len(lines) == 3 and lines[1].startswith("generation 2/2")
    done("resume", path, "--generations", 4, ranks=second)
    assert_same_bits(path, alone)
    done("verify", path)
    assert info(path)["steps"] == 4 * 10 * 25


@pytest.mark.slow
def test_same_bits_of_a_replica_on_one_two_and_three_ranks_and_after_a_kill(tmp_path: Path) -> None:
    settings = ["task.engine=mujoco", "task.device=cpu", "task.steps=6", "run.generations=3"]
    alone, path = tmp_path / "alone.h5", tmp_path / "run.h5"
    walk(alone, "ant-maxent", *settings)
    walk(path, "ant-maxent", *settings, "run.generations=1", ranks=2)
    death = [{"rank": 1, "where": "a rollout", "after": 3}]
    killed = run(python(SELF_KILL, "resume", path, "--generations", 3, ranks=3), EES_CHAOS=json.dumps(death))
    assert killed.returncode == 128 + signal.SIGKILL, killed.stderr
    done("resume", path, "--generations", 3, ranks=3)
    assert_same_bits(path, alone)
    done("verify", path)


@pytest.mark.slow
def test_same_bits_of_a_gymnasium_environment(tmp_path: Path) -> None:
    pytest.importorskip("mujoco")
    preset, paths = "halfcheetah-v5-maxent-laptop", [tmp_path / "alone.h5", tmp_path / "ranks.h5"]
    walk(paths[0], preset)
    walk(paths[1], preset, ranks=3)
    assert_same_bits(*paths)
    done("verify", paths[1], ranks=2)
