"""Code that only a run file names does not run without the user's consent."""

import html
import json
import os
import shutil
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tomli_w
from support.own_parts import BASE, EXAMPLES, MODULES, write
from support.program import TINY, done, ees, forget_modules, refusal, sets
from support.run_files import edited

import ees_mpi
from ees_mpi.analysis import report, report_charts
from ees_mpi.config import parse, read_source
from ees_mpi.errors import ConfigError, TrustError
from ees_mpi.registry.plugins import imported
from ees_mpi.store import hdf5

BUILT_IN = {"env": "CartPole-v1"}
OWN: dict[str, Any] = {  # sections that name code: the examples of a page, and two more
    **EXAMPLES,
    **{name: {"task": EXAMPLES[name]["task"] | BUILT_IN} for name in ("A behaviour", "A policy")},
    "A part": {
        "objective": {"name": "blend", "parts": [EXAMPLES["An objective in torch"]["objective"] | {"share": 1.0}]}
    },
    "A function": {
        "task": {"name": "function", "function": "landing:land", "parameters": 2, "behavior_dim": 1, "batch": True}
    },
}
NAMES = [*(name.removesuffix(".py") for name in MODULES), "landing"]


@pytest.fixture(autouse=True)
def no_trust(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
    monkeypatch.delenv("EES_MPI_TRUST")


@pytest.fixture
def folder(inside: Path) -> Path:
    write(inside, "A task")
    Path("landing.py").write_text("def land(z):\n    return z[:, :1] * z[:, 1:]\n")
    return inside


def words(section: dict[str, Any]) -> list[str]:
    """Write a config with a section in place of that of the page; return the words of `ees-mpi train`."""
    Path("own.toml").write_text(tomli_w.dumps({**BASE, **section}))
    return ["own.toml", *sets(*TINY, "run.fsync=false"), "--out", "run.h5"]


def begin(name: str) -> None:
    """Train a run with the user's own code, and forget that this was done: then it is a stranger's file."""
    done("train", *words(OWN[name]))
    assert ran()
    be_another_user()


def be_another_user() -> None:
    """Forget which code was imported, and with which code this user has trained."""
    forget_modules()
    shutil.rmtree(os.environ["XDG_STATE_HOME"])


def ran() -> bool:
    """Return whether code of the user was imported."""
    return bool(set(NAMES) & sys.modules.keys())


REPORT, VERIFY, METRICS = (("report", "run.h5"), ("verify", "run.h5"), ("metrics", "run.h5"))
UPDATES = ("verify", "run.h5", "--updates")
REPLAY, SAMPLE = ("replay", "run.h5", "--individual", "0"), ("sample", "run.h5", "--count", "2")
ADAPT, RESUME = ("adapt", "run.h5", "--direction", "left"), ("resume", "run.h5", "--generations", "9")


@pytest.mark.parametrize(
    ("name", "commands"),
    [
        ("A task", (REPLAY, VERIFY, SAMPLE, ADAPT, RESUME, METRICS)),
        ("A Gymnasium environment", (VERIFY, RESUME)),
        ("A behaviour", (SAMPLE,)),
        ("An objective in torch", (RESUME, UPDATES)),
        ("An objective in numpy", (RESUME, UPDATES)),
        ("A part", (RESUME,)),
        ("A policy", (RESUME, VERIFY, REPLAY)),
        ("A population", (RESUME, VERIFY)),
        ("An optimizer", (RESUME, UPDATES)),
        ("A function", (RESUME, VERIFY)),
    ],
)
def test_code_that_a_file_names_does_not_run_and_a_report_says_so_in_place_of_pictures(
    folder: Path, name: str, commands: tuple[tuple[str, ...], ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_charts, "_svg", lambda *figure, **more: "")  # drawing the curves takes most of the time
    begin(name)
    for command in commands:
        code, line = refusal(*command)
        assert code == 3 and any(f"'{each}:" in line for each in NAMES) and "--trust" in line and not ran(), command
    page = html.unescape(Path(done(*REPORT).stdout.strip()).read_text())
    assert "Over generations" in page and "<img src" not in page and not ran()
    if name in ("A task", "A Gymnasium environment", "A behaviour", "A policy"):  # others have nothing to draw
        assert "No pictures: task." in page and "--trust" in page.partition("No pictures: ")[2].splitlines()[0]
    assert ("They are whole behaviours" in page) == (name == "A task")


def test_a_report_leaves_out_pictures_that_need_the_users_population(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin("A population")
    closed: list[bool] = []
    actor = SimpleNamespace(close=lambda: closed.append(True))
    monkeypatch.setattr(report, "film", lambda run, view: actor)  # as of a robot
    page = html.unescape(Path(done(*REPORT).stdout.strip()).read_text())
    assert "No pictures: population.function = 'spreading:OneSpread'" in page and closed and not ran()


def test_the_consent_to_run_code_is_for_one_command(folder: Path) -> None:
    begin("A task")
    for command in (VERIFY, SAMPLE, RESUME):
        assert ees(*command, "--trust").returncode == 0 and ran()
        forget_modules()
        assert refusal(*command)[0] == 3 and not ran()


CHEETAH = """
[task]
name = "gymnasium"
env = "HalfCheetah-v5"
hidden = [4]
[task.env_settings]
"""


def task_of(text: str, stored: bool) -> Any:
    """Return the task of a config, from a run file or from the user."""
    rest = tomllib.loads(read_source("interference-maxvar"))
    del rest["task"]
    return parse(f"{text}\n{tomli_w.dumps(rest)}", stored=stored).task


@pytest.mark.parametrize(
    "setting",
    ["render_mode = 'human'", "healthy_z_range = [0.2, 'secret.xml']"],
)
def test_settings_of_a_run_file_reach_gymnasium_only_if_they_are_numbers(folder: Path, setting: str) -> None:
    with pytest.raises(TrustError, match=f"{setting.split()[0]}.*--trust"):
        task_of(CHEETAH + setting, stored=True).open(0)


def test_numbers_of_a_run_file_and_all_settings_of_the_user_reach_gymnasium(folder: Path) -> None:
    task_of(CHEETAH + "frame_skip = 3\nreset_noise_scale = 0", stored=True).open(0).close()
    with pytest.raises(ConfigError, match=r"secret\.xml"):
        task_of(CHEETAH + "xml_file = 'secret.xml'", stored=False).open(0)


def test_a_stranger_cannot_open_a_file_through_an_environment(folder: Path) -> None:
    done("train", *words({"task": tomllib.loads(CHEETAH)["task"] | {"steps": 5}}))
    be_another_user()
    os.mkfifo(folder / "pipe.xml")  # reading it would wait for ever
    with edited(folder / "run.h5") as file:
        config = hdf5.attributes(file)["config"]
        changed = config.replace("[task.env_settings]", "[task.env_settings]\nxml_file = 'pipe.xml'")
        hdf5.put(file, {"config": changed})
    for command in (("verify", "run.h5"), ("resume", "run.h5", "--generations", "9")):
        code, line = refusal(*command)
        assert code == 3 and "task.env_settings.xml_file = 'pipe.xml'" in line and "--trust" in line


@pytest.mark.parametrize("model", ["model = 'secret.xml'", "model = 'x'\nxml = '<mujoco/>'"])
def test_a_model_of_a_run_file_needs_trust(folder: Path, model: str) -> None:
    text = f"[task]\nname = 'mujoco'\n{model}\n"
    with pytest.raises(TrustError, match=r"task\.model.*--trust"):
        _ = task_of(text, stored=True).layers
    with pytest.raises(ConfigError, match=r"task\.model"):
        _ = task_of(text, stored=False).layers


def test_files_that_name_code_can_be_read_and_started_from(folder: Path) -> None:
    begin("A task")
    for command in (("info", "run.h5"), ("config", "run.h5"), ("repair", "run.h5")):
        done(*command)
    done("export", "run.h5", "--csv")
    assert not ran()


def test_the_users_own_config_needs_no_trust_to_resume(folder: Path) -> None:
    begin("A task")
    more = ("--resume", "--set", "run.generations=9")
    done("train", *words(OWN["A task"]), *more)
    forget_modules()
    code, _ = refusal("train", *words({"task": {"name": "custom", "function": "support.own_tasks:Base"}}), *more)
    assert code == 2 and not ran()  # another config, and its own code only


@pytest.mark.standing_ranks
def test_all_ranks_refuse_and_all_ranks_trust(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begin("A task")
    code, line = refusal("verify", "run.h5", ranks=2)
    assert code == 3 and "--trust" in line and not ran()
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
    task = {"name": "custom", "function": "os:system", "settings": {"command": f"touch {marker}"}}
    code, line = refusal("train", *words({"task": task}))
    assert code == 2 and "expected a class, got builtin" in line and not marker.exists()


def test_results_of_other_code_than_the_run_was_trained_with_say_so(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The user has trained another run with the new code, so it may run."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # a file of the same second and size is "old"
    options = words({**OWN["A Gymnasium environment"], **OWN["An objective in numpy"]})
    options += sets("task.steps=2", "population.size=16", "run.generations=1")
    done("train", *options)
    for module in ("cart", "weights"):
        Path(f"{module}.py").write_text(f"{MODULES[f'{module}.py']}\nCHANGED = 1\n")
    forget_modules()
    assert "cart.py' has changed since you trained" in refusal(*SAMPLE)[1]
    begun = done("train", *options, "--out", "new.h5", "--from", "run.h5")
    adapted = done(*ADAPT, "--mutations", 2, "--evaluations", 1, "--policy", "left.npz")
    sampled = done("sample", "left.npz", "--count", 2, "-o", "left.h5")
    for said in (begun, adapted, sampled):
        assert "changed since run.h5" in said.stdout and "cart (" in said.stdout and "as it is now" in said.stdout, said
    assert "weights (" in done("signal", "run.h5", "--json").stderr
    capsys.readouterr()
    with ees_mpi.measure("left.h5", std=0.1, count=2, out="measured.h5") as measured:
        assert "changed since " in capsys.readouterr().out  # it was not the study that trained the policy
        trained = json.loads(measured.attributes["started_from"])["own_code"]["cart"]
        assert trained != measured.machine(0)["own_code cart"]
