"""The same bits for any number of ranks and any number of interruptions, for every kind of run."""

import json
import signal
from pathlib import Path

import h5py
import pytest
from support.own_parts import write
from support.program import CHECKOUT, TESTS, done, info, python, run, sets, train
from support.run_files import assert_same_bits

pytestmark = pytest.mark.standing_ranks

SELF_KILL = CHECKOUT / "tools" / "chaos_parts" / "self_kill.py"
WALK = ("population.size=8", "task.steps=12", "task.hidden=[8]", "noise.size=9000", "task.observation_share=0.5")
HALF_CHEETAH = ("task.name=gymnasium", "task.env=HalfCheetah-v5", "task.behavior=final_x", "task.fitness=behavior")
STARTS = ("task.rollouts=2", "objective.name=repeatable")
DECAY = ("population.std_decay=0.7", "population.std_min=0.2")
DIAGONAL = ("population.name=diagonal", "optimizer.lr=0.1")
MAML = ("population.size=5", "maml.rollouts=3", "noise.size=1000")
OWN = (
    "objective.name=custom",
    "objective.function=ees_mpi.strategy.scg.surrogates:maxent",
    "objective.settings.bandwidth=1.0",
)
STARTED = ("task.name=custom", "task.function=support.own_functions:Started", "task.rollouts=3", "population.size=70")
SPECIES = ("population.name=mixture", "population.components=3", "objective.name=novelty", "objective.archive_size=40")
KINDS = {  # a preset or a config, and settings
    "maxent": ("interference-maxent", "population.size=70", "objective.bandwidth=scott", *DECAY),
    "species, novelty, own starts": ("interference-maxvar", *STARTED, *SPECIES, "task.starts=own"),
    "learned spread, common starts": ("interference-maxvar", *STARTED, *STARTS, *DIAGONAL, "task.starts=common"),
    "own parts": ("configs/own.toml", *OWN, "optimizer.name=custom", "optimizer.function=momentum:Momentum"),
    "Bullet, mixture, own starts": ("ant-maxent-mixture", *WALK, *STARTS, "task.starts=own"),
    "replica": ("ant-maxent", *WALK, "task.engine=mujoco", "task.device=cpu", "run.evaluate_mean_every=2"),
    "MuJoCo": ("gymnasium-cheetah-maxent", *WALK, "task.device=cpu"),
    "Gymnasium, standard ES": ("gymnasium-cheetah-es", *HALF_CHEETAH, *WALK),
    "MAML": (str(TESTS / "support" / "maml_point.toml"), *MAML),
}
TORCH = ("own parts", "MAML")
QUICK = ("maxent", "species, novelty, own starts", "learned spread, common starts")


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=[pytest.mark.slow] * (kind not in QUICK)) for kind in KINDS])
def test_same_bits_in_two_parts_on_other_ranks(kind: str, inside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone, parts, configs = inside / "alone.h5", inside / "parts.h5", inside / "configs"
    configs.mkdir()
    write(configs, "A population")
    ranks = (2, None) if kind in TORCH else (3, 2)  # each rank imports it
    preset, *settings = KINDS[kind]
    words = ["train", preset, *sets("noise.size=5000", *settings, "run.fsync=false")]
    done(*words, *sets("run.generations=4"), "--out", alone)
    said = done(*words, *sets("run.generations=2"), "--out", parts, ranks=ranks[0])
    lines = [line for line in said.stdout.splitlines() if not line.startswith(("note: ", "warning: ", "generation 1/"))]
    assert said.stderr == "" and len(lines) == 3 and lines[1].startswith("generation 2/2"), said  # no engine speaks
    assert info(parts)["ranks"] == ranks[0]
    monkeypatch.chdir(configs)  # a run file does not know the folder of its config
    done("resume", parts, "--generations", 4, ranks=ranks[1])
    assert_same_bits(parts, alone)
    one, other = (info(path) for path in (alone, parts))
    assert other["sessions"] == 2 and all(one[name] == other[name] for name in ("state_sha256", "steps", "evaluations"))
    assert "the same bits" in done("verify", parts, ranks=ranks[0] if kind in QUICK else None).stdout


@pytest.mark.slow
def test_same_bits_after_a_kill(tmp_path: Path) -> None:
    """The kind of run whose state has the most parts: an archive, several means, two starts of each individual."""
    alone, path = tmp_path / "alone.h5", tmp_path / "run.h5"
    parts = ("objective.name=novelty", "task.rollouts=2", "task.starts=own")
    words = ("train", "ant-maxent-mixture", *sets(*WALK, *parts))
    done(*words, *sets("run.generations=5"), "--out", alone)
    done(*words, *sets("run.generations=2"), "--out", path, ranks=3)
    death = [{"rank": 1, "where": "a rollout", "after": 6}]
    killed = run(python(SELF_KILL, "resume", path, "--generations", 5, ranks=2), EES_CHAOS=json.dumps(death))
    assert killed.returncode == 128 + signal.SIGKILL, killed.stderr
    assert 2 <= int(str(info(path)["generations"])) < 5
    done("resume", path, "--generations", 5, ranks=2)
    assert_same_bits(path, alone)
    with h5py.File(path) as file:
        assert file["final/memory/archive"].shape == (40, 2)
    done("verify", path)
    done("verify", path, "--updates", ranks=2)
    done("sample", path, "--count", 4, "--out", tmp_path / "sample.h5")


@pytest.mark.slow
def test_same_bits_at_75272_parameters(tmp_path: Path) -> None:
    settings = ("population.size=60", "task.steps=1", "noise.size=2000000", "run.generations=2")
    paths = [train(tmp_path / f"{ranks}.h5", "ant-maxent", *settings, ranks=ranks) for ranks in (None, 3)]
    assert info(paths[0])["parameters"] == 75_272
    assert_same_bits(*paths)
    assert done("signal", paths[0], "--json", ranks=3).stdout == done("signal", paths[0], "--json").stdout
