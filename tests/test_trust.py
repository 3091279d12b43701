"""A file is data: code that it names runs only if the user says so for this call."""

import html
import os
import pickle
import shutil
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
import tomli_w
from support.own_parts import BASE, EXAMPLES, MODULES, write
from support.program import TINY, done, forget_modules, refusal, sets
from support.run_files import attributes, edited

import ees_mpi
from ees_mpi.analysis import report_charts
from ees_mpi.cli import main as command_line
from ees_mpi.config import parse, read_source
from ees_mpi.errors import ConfigError, TrustError
from ees_mpi.registry.plugins import imported

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
def folder(inside: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a user who has written code, and trusts no file."""
    monkeypatch.delenv("EES_MPI_TRUST")
    write(inside, "A task")
    Path("landing.py").write_text("def land(z):\n    return z[:, :1] * z[:, 1:]\n")
    return inside


def words(section: dict[str, Any]) -> list[str]:
    """Write a config with a section in place of that of the page; return the words of `ees-mpi train`."""
    Path("own.toml").write_text(tomli_w.dumps({**BASE, **section}))
    return ["own.toml", *sets(*TINY, "run.fsync=false")]


def begin(name: str) -> Path:
    """Train a run with own code, and forget that the code was imported."""
    done("train", *words(OWN[name]), "--out", "run.h5")
    assert ran()
    forget_modules()
    return Path("run.h5")


def ran() -> bool:
    """Return whether code of the user was imported."""
    return bool({*NAMES} & sys.modules.keys())


def change(old: str, new: str) -> None:
    """Change the config in the run file."""
    with edited(Path("run.h5")) as file:
        config = attributes(file)["config"]
        assert old in config
        file.attrs["config"] = config.replace(old, new)


def plain_with(section: str, text: str) -> Path:
    """Write a run file of a built-in task, and replace a section of its config."""
    done(
        "train", "interference-maxvar", *sets("run.generations=1", "population.size=20"), "-o", "run.h5", "--overwrite"
    )
    with edited(Path("run.h5")) as file:
        tables = attributes(file)["config"].split("\n\n")
        kept = [table for table in tables if not table.startswith((f"[{section}]", f"[{section}."))]
        file.attrs["config"] = "\n\n".join([*kept, f"[{section}]\n{text}\n"])
    return Path("run.h5")


# Each command that reads a run file, with the words of a call that may need its code.
ASKING: dict[str, tuple[str, ...]] = {
    "resume": ("run.h5", "--generations", "9"),
    "verify": ("run.h5",),
    "sample": ("run.h5", "--count", "2"),
    "adapt": ("run.h5", "--direction", "left"),
    "measure": ("run.h5", "--count", "2"),
    "replay": ("run.h5", "--individual", "0"),
}
UPDATES = ("verify", "run.h5", "--updates")
READING = (
    ("info", "run.h5"),
    ("config", "run.h5"),
    ("repair", "run.h5"),
    ("metrics", "run.h5"),
    ("export", "run.h5", "--csv"),
    ("figure", "run.h5"),
    ("compare", "--metric", "coverage", "run.h5", "--against", "other.h5"),
    ("train", "own.toml", *sets(*TINY), "--from", "run.h5", "-o", "new.h5"),
)
OTHERS = {"train", "sweep", "plan", "presets", "docs", "jobs", "doctor", "report", "export", "signal"}


def test_the_lists_above_have_every_command_and_all_that_may_need_the_flag_take_it() -> None:
    assert {*ASKING} | {words[0] for words in READING} | OTHERS == {*command_line.EXAMPLES}
    cli = command_line.cli
    commands = {name: cli.get_command(click.Context(cli), name) for name in command_line.EXAMPLES}
    takes = {name for name, each in commands.items() if each and any(one.name == "trust" for one in each.params)}
    assert takes == {*ASKING, "train", "report", "export", "signal"}


@pytest.mark.parametrize(
    ("name", "asking"),
    [
        ("A task", [*ASKING]),
        ("A Gymnasium environment", ["verify", "resume", "measure"]),
        ("A behaviour", ["sample"]),
        ("An objective in torch", ["resume", "updates", "signal"]),
        ("A part", ["resume"]),
        ("A policy", ["resume", "verify", "replay"]),
        ("A population", ["resume", "verify"]),
        ("An optimizer", ["resume", "updates"]),
        ("A function", ["resume", "verify"]),
    ],
)
def test_code_that_a_file_names_runs_in_no_command_without_the_flag(
    name: str, asking: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_charts, "_svg", lambda *figure, **more: "")  # drawing the curves takes most of the time
    begin(name)
    calls = {name: (name, *more) for name, more in ASKING.items()}
    calls |= {"updates": UPDATES, "signal": ("signal", "run.h5"), "export": ("export", "run.h5", "--policy")}
    for each in asking:
        code, line = refusal(*calls[each])
        assert code == 3 and any(f"'{module}:" in line for module in NAMES) and "--trust" in line and not ran(), each
    if name in ("A task", "A Gymnasium environment"):  # others have nothing to draw, or are of the second kind
        page = html.unescape(Path(done("report", "run.h5").stdout.strip()).read_text())
        extremes = page.split("<h2>Extremes of")[1].split("</section>")[0]
        assert "Over generations" in page and "<img src" not in extremes and not ran()
        assert "No pictures: the file would run or load" in page
    assert done(*calls[asking[0]], "--trust") and ran()


@pytest.mark.usefixtures("quick_figures")
def test_reading_and_starting_from_a_file_that_names_code_asks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    done("train", *words(OWN["A task"]), "--seed", 1, "--out", "other.h5")
    run = begin("A task")
    Path("own.toml").write_text(tomli_w.dumps({**BASE, **OWN["A function"]}))
    Path("throwing.py").write_text("raise AssertionError")
    for command in READING:
        done(*command)
        assert "throwing" not in sys.modules, command
    with ees_mpi.open_run(run) as opened:
        assert opened.individual(2, 3).shape == (2,) and opened.config.sections()["task"]["name"] == "custom"


def test_the_users_own_config_asks_nothing_also_if_the_code_has_changed() -> None:
    own = ("train", *words(OWN["A task"]), "--out", "run.h5")
    done(*own)
    Path("throwing.py").write_text(f"{MODULES['throwing.py']}\nCHANGED = 1\n")
    forget_modules()
    assert "your code has changed" in done(*own, "--resume", "--set", "run.generations=9").stdout


def test_one_error_lists_all_code_and_a_refusal_is_one_line_whatever_the_file_names() -> None:
    both = {**OWN["A task"], **OWN["An optimizer"]}
    done("train", *words(both), "--out", "run.h5")
    code, line = refusal("resume", "run.h5", "--generations", 9)
    assert code == 3 and "task.function = 'throwing:Throw', optimizer.function = " in line
    settings = r'env_settings = {"a\nees-mpi: all is well" = "<i>"}'
    plain_with("task", f"name = 'gymnasium'\nenv = 'CartPole-v1'\nhidden = [4]\nsteps = 5\n{settings}")
    code, line = refusal("verify", "run.h5")
    assert code == 3 and r"env_settings.a\nees-mpi" in line and "\n" not in line.strip()
    page = Path(done("report", "run.h5").stdout.strip()).read_text()
    assert "&lt;i&gt;" in page and "<i>" not in page


def pickled(thing: Any) -> Any:
    return pickle.loads(pickle.dumps(thing))  # noqa: S301


HOLES: dict[str, Callable[..., Any]] = {
    "train(open_run(f).config)": lambda f, **trust: ees_mpi.train(ees_mpi.open_run(f).config, "y.h5", **trust),
    "train(pickled config)": lambda f, **trust: ees_mpi.train(pickled(ees_mpi.load_config(f)), "y.h5", **trust),
    "train(a text of it)": lambda f, **trust: ees_mpi.train(
        {**BASE, "task": {"name": "custom", "function": ees_mpi.load_config(f).task.function}},  # type: ignore[attr-defined]
        "y.h5",
        **trust,
    ),
    "train(a setting of it)": lambda f, **trust: ees_mpi.train(
        {**BASE, **EXAMPLES["A task"]},
        "y.h5",
        settings={"task.function": ees_mpi.load_config(f).task.function},  # type: ignore[attr-defined]
        **trust,
    ),
    "train(f)": lambda f, **trust: ees_mpi.train(f, "y.h5", **trust),
    "train(f, resume)": lambda f, **trust: ees_mpi.train(f, resume=True, generations=9, **trust),
    "open_run(f).config.task": lambda f, **trust: ees_mpi.open_run(f, **trust).config.task.open(0),
    "sample": lambda f, **trust: ees_mpi.sample(f, 4, overwrite=True, **trust),
}


@pytest.mark.parametrize("hole", HOLES)
def test_no_call_in_python_runs_the_code_without_the_flag_and_each_runs_it_with_it(hole: str) -> None:
    run, before = begin("A task"), list(sys.path)
    for trust in ({}, {"trust": False}, {"trust": "no"}):  # a text is no consent
        with pytest.raises(ees_mpi.EesError, match=r"task\.function = 'throwing:Throw'.*--trust|trust: expected True"):
            HOLES[hole](run, **trust)
        assert not ran()
    HOLES[hole](run, trust=True)
    assert ran() and sys.path == before


def test_the_variable_of_the_environment_stands_for_the_flag(monkeypatch: pytest.MonkeyPatch) -> None:
    run = begin("A task")
    monkeypatch.setenv("EES_MPI_TRUST", "1")
    ees_mpi.sample(run, 4).close()
    monkeypatch.setenv("EES_MPI_TRUST", "0")
    with pytest.raises(TrustError):
        ees_mpi.sample(run, 4, overwrite=True)


def test_a_loop_runs_code_of_a_file_with_consent_only() -> None:
    run = begin("An optimizer")
    config: Any = ees_mpi.load_config(run)
    of_file = {"optimizer": config.method.optimizer}
    for given in ({"config": config}, {"config": config.sections()}, {"config": run}, of_file):
        with pytest.raises(TrustError, match=r"optimizer\.function = "):
            ees_mpi.Strategy(np.ones(2), **{"objective": None, **given})
        assert not ran()
    with ees_mpi.Strategy(np.ones(2), config=run, trust=True) as es:
        es.tell(es.ask(), np.ones(20))
    assert ran()


def test_the_folder_of_a_run_file_is_not_searched(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = begin("A task").absolute()
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    code, line = refusal("verify", run, "--trust")
    assert code == 2 and "no module 'throwing'" in line and "PYTHONPATH=FOLDER" in line and not ran()
    shutil.copy(run.parent / "throwing.py", "throwing.py")
    done("verify", run, "--trust")


def test_a_loaded_config_finds_the_modules_beside_its_file(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    before = list(sys.path)
    config = ees_mpi.load_config(folder / "own.toml")
    forget_modules()
    assert config.task.parameters == 2 and sys.path == before
    forget_modules()
    ees_mpi.train(config, "run.h5").close()
    assert ran() and sys.path == before


@pytest.mark.standing_ranks
def test_rank_0_decides_for_all_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    begin("A task")
    code, line = refusal("verify", "run.h5", ranks=2)
    assert code == 3 and "--trust" in line
    Path("loop.py").write_text(
        "import os\nimport sys\nimport ees_mpi\n"
        "os.environ['EES_MPI_TRUST'] = '01'[os.environ['OMPI_COMM_WORLD_RANK'] == sys.argv[1]]\n"
        "try:\n    ees_mpi.sample('run.h5', 4, overwrite=True)\n    sys.stdout.write('ran\\n')\n"
        "except ees_mpi.TrustError:\n    sys.stdout.write('asked\\n')\n"
    )
    for rank, said in (("0", "ran"), ("1", "asked")):
        printed = done(Path("loop.py"), rank, ranks=2).stdout.split()
        assert [word for word in printed if word in ("ran", "asked")] == [said, said]


def test_installed_code_needs_consent_for_its_settings(folder: Path) -> None:
    marker = folder / "marker"
    plain_with("optimizer", f"name = 'custom'\nfunction = 'subprocess:Popen'\nsettings.args = ['touch', '{marker}']")
    for command in (("resume", "run.h5", "--generations", "2"), UPDATES):
        code, line = refusal(*command)
        assert code == 3 and "optimizer.function = 'subprocess:Popen'" in line
    assert not marker.exists()


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


@pytest.mark.parametrize("setting", ["render_mode = 'human'", "healthy_z_range = [0.2, 'secret.xml']"])
def test_settings_of_a_run_file_reach_gymnasium_only_if_they_are_numbers(setting: str) -> None:
    with pytest.raises(TrustError, match=f"{setting.split()[0]}.*--trust"):
        task_of(CHEETAH + setting, stored=True).open(0)


def test_numbers_of_a_run_file_and_all_settings_of_the_user_reach_gymnasium() -> None:
    task_of(CHEETAH + "frame_skip = 3\nreset_noise_scale = 0", stored=True).open(0).close()
    with pytest.raises(ConfigError, match=r"secret\.xml"):
        task_of(CHEETAH + "xml_file = 'secret.xml'", stored=False).open(0)


def test_an_environment_that_gymnasium_does_not_bring_asks() -> None:
    gymnasium = pytest.importorskip("gymnasium")
    gymnasium.register("Hidden-v0", entry_point="gymnasium_hidden:Env")
    plain_with("task", "name = 'gymnasium'\nenv = 'Hidden-v0'")
    with pytest.raises(TrustError, match=r"task\.env = 'Hidden-v0'"):
        ees_mpi.train(ees_mpi.load_config("run.h5"), "y.h5")
    del gymnasium.registry["Hidden-v0"]


@pytest.mark.parametrize("model", ["model = 'pipe.xml'", "model = 'x'\nxml = '<mujoco/>'"])
def test_a_model_of_a_run_file_is_neither_read_nor_compiled(model: str) -> None:
    os.mkfifo("pipe.xml")  # reading it would wait for ever
    text = f"[task]\nname = 'mujoco'\n{model}\n"
    with pytest.raises(TrustError, match=r"task\.model.*--trust"):
        _ = task_of(text, stored=True).layers


def test_installed_modules_win_over_the_present_folder(folder: Path) -> None:
    (folder / "colorsys.py").write_text("raise RuntimeError")
    assert imported("colorsys:hsv_to_rgb", "key")(0, 0, 1) == (1, 1, 1)


@pytest.mark.parametrize("path", ["..x:y", "os:system()"])
def test_malformed_names_of_code_are_refused(path: str) -> None:
    with pytest.raises(ConfigError, match=r"expected package\.module:name"):
        imported(path, "task.function")


def test_results_of_other_code_than_the_run_was_trained_with_say_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # a file of the same second and size is "old"
    options = words({**OWN["A Gymnasium environment"], **OWN["An objective in numpy"]})
    options += sets("task.steps=2", "population.size=16", "run.generations=1")
    done("train", *options, "--out", "run.h5")
    for module in ("cart", "weights"):
        Path(f"{module}.py").write_text(f"{MODULES[f'{module}.py']}\nCHANGED = 1\n")
    forget_modules()
    begun = done("train", *options, "--out", "new.h5", "--from", "run.h5")
    monkeypatch.setenv("EES_MPI_TRUST", "1")
    adapted = done("adapt", *ASKING["adapt"], "--mutations", 2, "--evaluations", 1)
    for said in (begun, adapted):
        assert "changed since run.h5" in said.stdout and "cart (" in said.stdout and "as it is now" in said.stdout, said
    assert "weights (" in done("signal", "run.h5", "--json").stderr
