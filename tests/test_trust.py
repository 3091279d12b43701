"""Code that only a run file names does not run without the user's consent."""

import os
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from support.program import TINY, done, ees, refusal, sets
from support.run_files import edited

from ees_mpi import registry
from ees_mpi.config import parse, read_source
from ees_mpi.errors import ConfigError, TrustError
from ees_mpi.registry import own
from ees_mpi.registry.own import imported
from ees_mpi.store import texts

MODULE = """
from pathlib import Path
import numpy as np
from support.own_tasks import Base

Path("imported").touch()

class Task(Base):
    def evaluate(self, index, parameters, *rest):
        from ees_mpi.outcomes import Outcome
        return Outcome(index, (float(parameters[0]),), 0.0, 1)

def behavior(rollout):
    return [float(rollout.observations[-1][0])]

def objective(behaviors, fitness, ratios):
    return (ratios * behaviors[:, 0] ** 2).mean()

class Policy:
    count = 8
    def __init__(self, observations, actions):
        pass
    def initial(self, generator):
        return np.zeros(8)
    def load(self, flat):
        self.matrix = flat.reshape(4, 2)
    def act(self, observation):
        return observation @ self.matrix

class Population:
    def __init__(self, size, std, components):
        self.size = size
    def draw(self, generator, noise, parameters):
        from ees_mpi.outcomes import Draw
        return Draw(generator.integers(0, 9, self.size), np.ones(self.size, int), np.zeros(self.size, int))
    def individual(self, learned, draw, index, noise):
        return learned["mean"][0] + noise.row(draw.offset[index], 1)
    def gradient(self, weights, draw, learned, noise, ranks):
        return {"mean": np.zeros((1, 1))}

class Optimizer:
    def start(self, learned):
        return {}
    def step(self, learned, gradient, moments):
        return learned, moments
"""
TASK = "task = {name='custom', function='strange:Task'}"
BEHAVIOR = "task = {name='gymnasium', env='CartPole-v1', behavior='strange:behavior', hidden=[4], steps=5}"
OBJECTIVE = "objective = {name='custom', function='strange:objective'}"
PART = "objective = {name='blend', parts=[{name='custom', function='strange:objective', share=1.0}]}"

POLICY = "task = {name='gymnasium', env='CartPole-v1', policy='strange:Policy', steps=5}"
POPULATION = "population = {name='custom', function='strange:Population', size=20, std=0.5}"
OPTIMIZER = "optimizer = {name='custom', function='strange:Optimizer'}"


@pytest.fixture(autouse=True)
def no_trust(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EES_MPI_TRUST")
    monkeypatch.setattr(registry, "_FROM_USER", set())
    monkeypatch.setattr(registry, "_FROM_FILES", set())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "strange.py").write_text(MODULE)
    return tmp_path


def words(own: str) -> list[str]:
    """Write a config with a section in place of a preset's; return the words of `ees-mpi train`."""
    sections = tomllib.loads(read_source("interference-maxvar")) | tomllib.loads(own)
    Path("own.toml").write_text(tomli_w.dumps(sections))
    return ["own.toml", *sets(*TINY, "run.fsync=false"), "--out", "run.h5"]


def begin(folder: Path, own: str) -> None:
    """Train a run with the user's own code, and forget that the code was ever imported."""
    done("train", *words(own))
    forget(folder)


def forget(folder: Path) -> None:
    sys.modules.pop("strange", None)
    own.forget()
    (folder / "imported").unlink(missing_ok=True)


REPORT, VERIFY, METRICS = (("report", "run.h5"), ("verify", "run.h5"), ("metrics", "run.h5"))
UPDATES, POLICY_FILE = ("verify", "run.h5", "--updates"), ("export", "run.h5", "--policy")
REPLAY, SAMPLE = ("replay", "run.h5", "--individual", "0"), ("sample", "run.h5", "--count", "2")
ADAPT, RESUME = ("adapt", "run.h5", "--direction", "left"), ("resume", "run.h5", "--generations", "9")


@pytest.mark.parametrize(
    ("own", "commands"),
    [
        (TASK, (REPORT, REPLAY, VERIFY, SAMPLE, ADAPT, RESUME, METRICS)),
        (BEHAVIOR, (REPORT, SAMPLE)),
        (OBJECTIVE, (RESUME, UPDATES)),
        (PART, (RESUME,)),
        (POLICY, (RESUME, VERIFY, POLICY_FILE, REPLAY)),
        (POPULATION, (RESUME, VERIFY)),
        (OPTIMIZER, (RESUME, UPDATES)),
    ],
    ids=lambda value: value.partition(" ")[0] if isinstance(value, str) else "",
)
def test_code_that_only_the_file_names_does_not_run(
    folder: Path, own: str, commands: tuple[tuple[str, ...], ...]
) -> None:
    begin(folder, own)
    for command in commands:
        code, line = refusal(*command)
        assert code == 3 and "'strange:" in line and "--trust" in line and not (folder / "imported").exists(), command


def test_the_consent_to_run_code_is_for_one_command(folder: Path) -> None:
    begin(folder, TASK)
    for command in (VERIFY, SAMPLE, RESUME):
        assert ees(*command, "--trust").returncode == 0 and (folder / "imported").exists()
        forget(folder)
        assert refusal(*command)[0] == 3 and not (folder / "imported").exists()


CHEETAH = """
[task]
name = "gymnasium"
env = "HalfCheetah-v5"
hidden = [4]
[task.env_settings]
"""


def task_of(text: str, trusted: bool) -> Any:
    """Return the task of a config, from a run file or from the user."""
    rest = tomllib.loads(read_source("interference-maxvar"))
    del rest["task"]
    return parse(f"{text}\n{tomli_w.dumps(rest)}", trusted=trusted).task


@pytest.mark.parametrize(
    "setting",
    [
        "render_mode = 'human'",
        "healthy_z_range = [0.2, 'secret.xml']",
    ],
)
def test_settings_of_a_run_file_reach_gymnasium_only_if_they_are_numbers(folder: Path, setting: str) -> None:
    with pytest.raises(TrustError, match=f"{setting.split()[0]}.*--trust"):
        task_of(CHEETAH + setting, trusted=False).make()


def test_numbers_of_a_run_file_and_all_settings_of_the_user_reach_gymnasium(folder: Path) -> None:
    task_of(CHEETAH + "frame_skip = 3\nreset_noise_scale = 0", trusted=False).make().close()
    with pytest.raises(ConfigError, match=r"secret\.xml"):
        task_of(CHEETAH + "xml_file = 'secret.xml'", trusted=True).make()


def test_a_stranger_cannot_open_a_file_through_an_environment(folder: Path) -> None:
    done("train", *words(tomli_w.dumps({"task": tomllib.loads(CHEETAH)["task"] | {"steps": 5}})))
    os.mkfifo(folder / "pipe.xml")  # reading it would wait for ever
    with edited(folder / "run.h5") as file:
        config = texts.attributes(file)["config"]
        changed = config.replace("[task.env_settings]", "[task.env_settings]\nxml_file = 'pipe.xml'")
        texts.put(file, {"config": changed})
    for command in (("verify", "run.h5"), ("resume", "run.h5", "--generations", "9")):
        code, line = refusal(*command)
        assert code == 3 and "task.env_settings.xml_file = 'pipe.xml'" in line and "--trust" in line


@pytest.mark.parametrize("model", ["model = 'secret.xml'", "model = 'x'\nxml = '<mujoco/>'"])
def test_a_model_of_a_run_file_needs_trust(folder: Path, model: str) -> None:
    text = f"[task]\nname = 'mujoco'\n{model}\n"
    with pytest.raises(TrustError, match=r"task\.model.*--trust"):
        _ = task_of(text, trusted=False).layers
    with pytest.raises(ConfigError, match=r"task\.model"):
        _ = task_of(text, trusted=True).layers


def test_files_that_name_code_can_be_read_and_started_from(folder: Path) -> None:
    begin(folder, TASK)
    for command in (("info", "run.h5"), ("config", "run.h5"), ("repair", "run.h5")):
        done(*command)
    done("export", "run.h5", "--csv")
    assert not (folder / "imported").exists()


def test_the_users_own_config_needs_no_trust_to_resume(folder: Path) -> None:
    begin(folder, TASK)
    more = ("--resume", "--set", "run.generations=9")
    done("train", *words(TASK), *more)
    forget(folder)
    code, _ = refusal("train", *words("task = {name='custom', function='support.own_tasks:Base'}"), *more)
    assert code == 2 and not (folder / "imported").exists()  # another config, and its own code only


@pytest.mark.standing_ranks
def test_all_ranks_refuse_and_all_ranks_trust(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begin(folder, TASK)
    code, line = refusal("verify", "run.h5", ranks=2)
    assert code == 3 and "--trust" in line and not (folder / "imported").exists()
    monkeypatch.setenv("EES_MPI_TRUST", "1")
    done("sample", "run.h5", "--count", "4", ranks=2)


def test_installed_modules_win_over_the_present_folder(folder: Path) -> None:
    (folder / "colorsys.py").write_text("raise RuntimeError")
    assert imported("colorsys:hsv_to_rgb", "key")(0, 0, 1) == (1, 1, 1)


@pytest.mark.parametrize("path", ["..x:y", "x", "os:system()", "x\0:y"])
def test_malformed_names_of_code_are_refused(path: str) -> None:
    with pytest.raises(ConfigError, match=r"expected package\.module:name"):
        imported(path, "task.function")


def test_functions_are_not_called_in_place_of_tasks(folder: Path) -> None:
    marker = folder / "called"
    own = f"task = {{name='custom', function='os:system', settings={{command='touch {marker}'}}}}"
    code, line = refusal("train", *words(own))
    assert code == 2 and "expected a class, got builtin" in line and not marker.exists()
