"""The start of a run: the checks before it makes its file, and the one rank that opens that file."""

import json
import os
import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import own_tasks, program, random_parts
from support.program import TESTS, TINY, done, forget_modules, info, python, refusal, run, sets
from support.random_parts import SMALL, train

import ees_mpi
from ees_mpi import ranks
from ees_mpi.commands.requests import TrainRequest
from ees_mpi.commands.train import prepare
from ees_mpi.commands.verify import verify_updates
from ees_mpi.config import load
from ees_mpi.run.start import Prepared

ENV = {"name": "gymnasium", "env": "support.random_parts:Walk-v0", "steps": 5, "hidden": [2], "observation_share": 1.0}
PARTS = {"population": {"name": "normal", "size": 8, "std": 0.1}, "objective": {"name": "maxvar"}}


def train_env(out: Path, **task: Any) -> ees_mpi.Run:
    return ees_mpi.train({"task": {**ENV, **task}, **PARTS}, out, settings=SMALL)


def test_a_noise_table_with_few_noise_vectors_is_reported(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    train(tmp_path / "run.h5", random_parts.first, **{"noise.size": 101, "population.size": 102}).close()
    assert "warning: the noise table has 100 noise vectors for 102 individuals" in capfd.readouterr().out
    with pytest.raises(ees_mpi.ConfigError, match=r"noise\.size: expected at least 101, for 100 noise vectors"):
        train(tmp_path / "none.h5", random_parts.first, **{"noise.size": 100})
    assert not (tmp_path / "none.h5").exists()


TWICE = r"individual 0 was evaluated twice, and its "


@pytest.mark.parametrize(
    ("task", "batch", "message"),
    [
        (random_parts.random, False, TWICE + r"behaviour is -?\d\S+ and then -?\d"),
        (random_parts.several, True, TWICE + "behaviour is"),
    ],
)
def test_a_function_that_is_not_deterministic_is_refused(task: Any, batch: bool, message: str, tmp_path: Path) -> None:
    with pytest.raises(
        ees_mpi.ConfigError, match=rf"task.function .*{task.__name__}.*{message}.*task.deterministic = f"
    ):
        train(tmp_path / "run.h5", task, batch)
    assert not (tmp_path / "run.h5").exists()


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (
            {
                "env_settings": {"fault": "leftover"},
                "behavior": "final_observation[0]",
                "terminate": "never",
                "policy": "POLICY",
            },
            r"task.env .*Walk-v0, task.policy \S+: .* number 2 of its observation sums is",
        ),
        ({"policy": "POLICY", "policy_settings": {"noisy": True}}, r"task.policy \S+: .*its behaviour is"),
    ],
)
def test_an_environment_or_policy_that_is_not_deterministic_is_refused(
    task: dict[str, Any], message: str, tmp_path: Path
) -> None:
    if task.get("policy"):
        task = {"policy_settings": {"noisy": False}, **task, "policy": "support.random_parts:Act"}
    with pytest.raises(ees_mpi.ConfigError, match=message):
        train_env(tmp_path / "run.h5", **task)
    assert not (tmp_path / "run.h5").exists()
    train_env(tmp_path / "run.h5").close()  # the environment without a fault


def test_our_own_code_is_not_checked() -> None:
    ours = [load(preset).task.own_code for preset in ("ant-maxent", "interference-maxvar", "gymnasium-cheetah-es")]
    settings = {"task.env": "CartPole-v1"}
    assert not any([*ours, ees_mpi.load_config({"task": ENV, **PARTS}, settings).task.own_code])


def test_a_random_task_can_be_accepted_and_verify_says_that_it_cannot_be_repeated(tmp_path: Path) -> None:
    out = tmp_path / "run.h5"
    train(out, random_parts.random, **{"task.deterministic": False, "population.size": 300}).close()
    assert info(out)["deterministic"] is False
    code, said = refusal("verify", out)
    assert code == 2 and "generations 0, 1 cannot be repeated: the task is not deterministic" in said
    assert "2 updates" in ranks.call("verify", lambda world: verify_updates(world, out))[0]
    assert "is not deterministic" in done("replay", out, "--individual", 1).stdout


@pytest.mark.slow
def test_other_ranks_unmask_code_that_depends_on_its_process_and_several_rollouts_have_the_same_bits_there(
    tmp_path: Path,
) -> None:
    alone = train(tmp_path / "alone.h5", random_parts.seeded, **{"task.rollouts": 3})["state_sha256"][-1].decode()
    two = run(python(random_parts.__file__, tmp_path / "two.h5", ranks=2))
    assert two.returncode == 0, two.stderr
    assert two.stdout.count("refused: ") == 2 and "individual 0 was evaluated twice, and its behaviour" in two.stdout
    assert two.stdout.count(f"digest: {alone}") == 2


def resumed(out: Path) -> Prepared:
    """Return the run that `train --resume` prepares."""
    return prepare(TrainRequest("interference-maxvar", out, resume=True), load("interference-maxvar", TINY))


def test_resume_says_that_there_is_nothing_to_resume(tmp_path: Path) -> None:
    out = tmp_path / "run.h5"
    assert f"there is no {out} to resume: a new run begins" in resumed(out).config.notes
    program.train(out)
    again = resumed(out)
    again.close()
    assert not any("resume" in note for note in again.config.notes)


def opened(folder: Path, *words: object) -> list[Counter[str]]:
    """Run a command on two ranks; return how often each of them opened which file."""
    done = run(python(TESTS / "support" / "count_opens.py", *words, ranks=2), EES_OPENED=str(folder))
    assert done.returncode == 0, done.stderr
    return [Counter(json.loads((folder / f"rank{rank}.json").read_text())) for rank in (0, 1)]


@pytest.mark.slow
def test_train_opens_the_run_file_on_rank_0_only_and_a_few_times(finished: Path, tmp_path: Path) -> None:
    out = Path(shutil.copy(finished, tmp_path / "run.h5"))
    settings = sets(*TINY, "run.generations=8", "run.fsync=false")
    first, other = opened(tmp_path, "train", "interference-maxvar", *settings, "--out", out, "--resume")
    assert 0 < first["run.h5"] <= 6  # it is read four times, and copied for each of two folds
    assert not other, other
    assert info(out)["generations"] == 8


@pytest.mark.usefixtures("inside")
def test_a_run_goes_on_with_changed_code_only_if_its_arrays_fit_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each command imports the behaviour anew, and the changed module in a folder below."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # a file of the same second and size is "old"
    out, installed = tmp_path / "run.h5", tmp_path / "venv" / "site-packages"
    for folder, name in ((tmp_path / "parts", "__init__.py"), (installed, "packaged.py")):
        folder.mkdir(parents=True)
        (folder / name).touch()
    imports = f"import sys; sys.path.append({str(installed)!r})\nimport json, packaged\nfrom parts.helper import part\n"
    (tmp_path / "ends.py").write_text(f"{imports}def b(rollout):\n    return part(rollout.observations[-1])\n")

    def ees(behavior: str, *words: object) -> tuple[int, str]:
        (tmp_path / "parts" / "helper.py").write_text(f"def part(row):\n    return row[{behavior}]\n")
        forget_modules()
        ended = program.ees(*words)
        return ended.returncode, ended.stdout + ended.stderr

    task = ("task.env=CartPole-v1", "task.behavior=ends:b", "task.steps=4", "task.hidden=[2]")
    (tmp_path / "own.toml").write_text("base = 'interference-maxvar'\n[task]\nname = 'gymnasium'\nenv = ''\n")
    small = sets(*task, "population.size=4", "noise.size=5000", "run.fsync=false")
    assert ees(":2", "train", "own.toml", "--generations", 2, "--out", out, *small)[0] == 0
    before = out.read_bytes()
    for other, shape in ((":3", "(4, 3)"), (":1", "(4, 1)")):
        code, said = ees(other, "resume", out, "--generations", 3, "--trust")
        assert (code, shape in said, "(4, 2) in" in said) == (2, True, True), said
    assert out.read_bytes() == before and not out.with_name("run.h5.journal").exists()
    code, said = ees("2:", "resume", out, "--generations", 3, "--trust")
    assert code == 0 and "since generation 1: parts.helper (" in said and "another experiment" in said, said
    assert ees("2:", "verify", out, "--generation", 2, "--trust")[0] == 0
    code, said = ees("2:", "verify", out, "--generation", 1, "--trust")
    assert code == 1 and "expected here: own_code parts.helper is '" in said
    with ees_mpi.open_run(out) as resumed:
        noted = {key for key in resumed.machine(2) if key.startswith("own_code ")}
    assert noted == {"own_code ends", "own_code parts", "own_code parts.helper"}


def test_a_run_does_not_go_on_with_moments_of_another_shape_that_numpy_would_broadcast(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = {**PARTS, "optimizer": {"name": "custom", "function": "support.own_tasks:Pace"}}
    task, out = {"name": "custom", "function": "support.own_tasks:TwoPlaces"}, tmp_path / "run.h5"
    ees_mpi.train({"task": task, **parts}, out, settings=SMALL).close()
    ees_mpi.train(out, resume=True, generations=3, trust=True).close()
    before = out.read_bytes()
    monkeypatch.setattr(own_tasks.Pace, "shape", ())
    with pytest.raises(ees_mpi.ConfigError, match=r"`moments/norm` has the shape \(1, 1\) in .* and \(\) here"):
        ees_mpi.train(out, resume=True, generations=9, trust=True)
    assert out.read_bytes() == before


MOVES = """
import os, tempfile

def gone(z):
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
    return z
"""


def test_code_that_leaves_the_present_folder_for_one_that_vanishes_does_not_move_the_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget_modules()
    monkeypatch.chdir(tmp_path)
    Path("moves.py").write_text(MOVES)
    Path("config.toml").write_text(
        'task = {name = "function", function = "moves:gone", parameters = 2, behavior_dim = 2}\n'
        'population = {size = 8, std = 0.1}\nobjective.name = "maxvar"\nrun.generations = 2\nnoise.size = 500\n'
    )
    for words in (
        ("train", "config.toml", "-o", "run.h5"),
        ("resume", "run.h5", "--generations", 3, "--trust"),
        ("sample", "run.h5", "--count", 2, "--trust", "-o", "sample.h5"),
        ("report", "run.h5", "--trust", "-o", "report.html"),
    ):
        done(*words)
        os.chdir(tmp_path)
    names = ["config.toml", "moves.py", "report.html", "run.h5", "sample.h5"]
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == names
    noise = {"noise": {"size": 500}}
    with ees_mpi.Strategy(np.zeros(2), "maxvar", size=4, std=0.1, config=noise, record="loop.h5") as es:
        os.chdir("/")
        es.tell(es.ask())
    assert (tmp_path / "loop.h5").exists()
