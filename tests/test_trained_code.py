"""A name in a file runs only if this user has trained with this very code before, or says so for this call."""

import contextlib
import copy
import os
import pickle
import shutil
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import tomli_w
from support.program import done, ees, forget_modules, python, refusal, run, sets
from support.run_files import edited

import ees_mpi
from ees_mpi.registry.marks import FromFile, Permitted
from ees_mpi.store import hdf5

TASK = """
import numpy as np
from helper import scale

class Point:
    parameters, behavior_dim = 3, 1
    def __init__(self, factor=1.0):
        self.factor = factor
    def initial(self, generator):
        return np.zeros(3, np.float32)
    def open(self, seed):
        return self
    def evaluate(self, index, parameters, mean, std, observe):
        from ees_mpi.outcomes import Outcome
        if index > 3:  # not the one that is tried before the run
            import later
        return Outcome(index, (float(scale(parameters.sum())) * self.factor,), 0.0, 1)
    def close(self):
        pass
"""
CONFIG: dict[str, Any] = {
    "run": {"generations": 2, "fsync": False},
    "task": {"name": "custom", "function": "point:Point", "settings": {"factor": 2.0}},
    "population": {"name": "normal", "size": 8, "std": 0.5},
    "objective": {"name": "maxvar"},
    "optimizer": {"name": "ascent", "lr": 0.03},
    "noise": {"size": 1000},
}
WORDS = ("train", "own.toml", "--out", "run.h5")
VERIFY, RESUME = ("verify", "run.h5"), ("resume", "run.h5", "--generations", "3")
SAMPLE = ("sample", "run.h5", "--count", "4", "--overwrite")


@pytest.fixture(autouse=True)
def folder(inside: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a user who has written a task, and has trained nothing."""
    monkeypatch.delenv("EES_MPI_TRUST")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
    Path("point.py").write_text(TASK)
    Path("helper.py").write_text("def scale(x):\n    return x\n")
    Path("later.py").write_text("")
    Path("own.toml").write_text(tomli_w.dumps(CONFIG))
    return inside


def pickled(thing: Any) -> Any:
    return pickle.loads(pickle.dumps(thing))  # noqa: S301


def plain_with(folder: Path, section: str, text: str) -> None:
    """Write a run file of a built-in task, and replace a section of its config."""
    done("train", "interference-maxvar", *sets("run.generations=1", "population.size=20"), "--out", "plain.h5")
    with edited(folder / "plain.h5") as file:
        tables = hdf5.attributes(file)["config"].split("\n\n")
        kept = [table for table in tables if not table.startswith((f"[{section}]", f"[{section}."))]
        hdf5.put(file, {"config": "\n\n".join([*kept, f"[{section}]\n{text}\n"])})


def ran() -> bool:
    """Return whether code of the user was imported."""
    return "point" in sys.modules


def forget_notes() -> None:
    """Forget what this user has trained with."""
    shutil.rmtree(Path(os.environ["XDG_STATE_HOME"], "ees_mpi"), ignore_errors=True)


@pytest.fixture
def mine(folder: Path) -> Path:
    """A file that the user made a minute ago."""
    done(*WORDS)
    forget_modules()
    return folder / "run.h5"


TRAINED: list[bytes] = []  # the run file of `stranger`, trained once: it does not name its folder


@pytest.fixture
def stranger(folder: Path) -> Path:
    """A file of somebody else."""
    path = folder / "run.h5"
    if not TRAINED:
        done(*WORDS)
        forget_modules()
        forget_notes()
        TRAINED.append(path.read_bytes())
    path.write_bytes(TRAINED[0])
    return path


def test_files_of_ones_own_need_no_consent(mine: Path) -> None:
    for words in (
        VERIFY,
        SAMPLE,
        RESUME,
        ("report", "run.h5"),
        ("metrics", "run-sample.h5"),
        ("verify", "run-sample.h5"),
    ):
        done(*words)
        forget_modules()
    assert "you have not trained with it" not in Path("run-report.html").read_text()
    with ees_mpi.sample(mine, 4, overwrite=True) as sampled:
        assert sampled.generations == 1
    with ees_mpi.train(ees_mpi.load_config(mine), "again.h5") as again:
        assert again.complete


def test_code_beside_a_run_file_is_found_from_another_folder(
    mine: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    for call in (ees_mpi.sample, ees_mpi.measure):
        with call(mine, count=4) as made:
            assert made["valid"].shape[1] == 4
        forget_modules()


def trusted_task(path: Path) -> Any:
    """Return the task of a run whose code may run."""
    task: Any = ees_mpi.open_run(path, trust=True).config.task
    assert type(task.function) is Permitted
    return task


HOLES: dict[str, Callable[[Path], Any]] = {
    "train(load_config(f))": lambda f: ees_mpi.train(ees_mpi.load_config(f), "y.h5"),
    "train(open_run(f).config)": lambda f: ees_mpi.train(ees_mpi.open_run(f).config, "y.h5"),
    "train(sections)": lambda f: ees_mpi.train(ees_mpi.open_run(f).config.sections(), "y.h5"),
    "train(copied sections)": lambda f: ees_mpi.train(copy.deepcopy(ees_mpi.load_config(f).sections()), "y.h5"),
    "train(pickled config)": lambda f: ees_mpi.train(pickled(ees_mpi.load_config(f)), "y.h5"),
    "train(config of a trusted run)": lambda f: ees_mpi.train(ees_mpi.open_run(f, trust=True).config, "y.h5"),
    "train(a text of it)": lambda f: ees_mpi.train(
        "interference-maxvar",
        "y.h5",
        settings={"task.name": "custom", "task.function": ees_mpi.load_config(f).task.function},  # type: ignore[attr-defined]
    ),
    "train(f)": lambda f: ees_mpi.train(f, "y.h5"),
    "train(f, resume)": lambda f: ees_mpi.train(f, resume=True, generations=3),
    "load_config(load_config(f)).task": lambda f: ees_mpi.load_config(ees_mpi.load_config(f)).task.parameters,
    "open_run(f).config.task": lambda f: ees_mpi.open_run(f).config.task.open(0),
    "sample": lambda f: ees_mpi.sample(f, 4, overwrite=True),
    "sample(an open run)": lambda f: ees_mpi.sample(ees_mpi.open_run(f, trust=True), 4, overwrite=True),
    "measure": lambda f: ees_mpi.measure(f, count=4, overwrite=True),
    "adapt": lambda f: ees_mpi.adapt(f, "left"),
    "a part of a trusted run": lambda f: ees_mpi.train(
        {**CONFIG, "task": {"name": "custom", **msgspec.structs.asdict(trusted_task(f))}}, "y.h5"
    ),
}


@pytest.mark.parametrize("hole", HOLES)
def test_no_call_runs_the_code_of_a_stranger(stranger: Path, hole: str) -> None:
    before = list(sys.path)
    with pytest.raises(ees_mpi.TrustError, match=r"task\.function = 'point:Point'.*--trust"):
        HOLES[hole](stranger)
    assert not ran() and sys.path == before


@pytest.mark.parametrize("part", ["objective", "optimizer", "population"])
def test_a_loop_runs_no_code_of_a_stranger(folder: Path, part: str) -> None:
    Path("parts.py").write_text("def f(behaviors, fitness):\n    raise AssertionError\n\n\nclass C:\n    pass\n")
    name = {"objective": "weights", "optimizer": "custom", "population": "custom"}[part]
    code = "parts:f" if part == "objective" else "parts:C"
    sizes = "\nsize = 20\nstd = 0.5" if part == "population" else ""
    plain_with(folder, part, f'name = "{name}"\nfunction = "{code}"{sizes}')
    config = ees_mpi.load_config("plain.h5")
    of_part = {"objective": "method.objective", "optimizer": "method.optimizer", "population": "population"}[part]
    settings: Any = config
    for word in of_part.split("."):
        settings = getattr(settings, word)
    for given in ({"config": config}, {"config": config.sections()}, {"config": "plain.h5"}, {part: settings}):
        with pytest.raises(ees_mpi.TrustError, match=rf"{part}\.function = '{code}'"):
            ees_mpi.Strategy(np.ones(3), **{"objective": None, **given})  # type: ignore[arg-type]
    assert "parts" not in sys.modules


LOOP = """
import os
import sys
import numpy as np
import ees_mpi

if os.environ["OMPI_COMM_WORLD_RANK"] in sys.argv[1:]:  # ranks that have no notes
    os.environ["XDG_STATE_HOME"] = "/proc/nothing"
try:
    es = ees_mpi.Strategy(np.ones(3), config="run.h5", trust="trust" in sys.argv)
    es.tell(es.ask())
    es.close()
    sys.stdout.write("ran\\n")
except ees_mpi.TrustError as error:
    sys.stdout.write("asked\\n")
"""


@pytest.mark.standing_ranks
def test_rank_0_decides_for_all_ranks_of_a_loop(folder: Path) -> None:
    Path("parts.py").write_text("def f(behaviors, fitness):\n    return fitness\n")
    Path("own.toml").write_text(tomli_w.dumps({**CONFIG, "objective": {"name": "weights", "function": "parts:f"}}))
    Path("loop.py").write_text(LOOP)
    done(*WORDS)
    for words, said in ((("1",), "ran"), (("0",), "asked"), (("0", "1", "trust"), "ran")):
        assert done(folder / "loop.py", *words, ranks=2).stdout.split() == [said, said], words


def test_a_loop_runs_code_with_consent_for_this_loop_and_finds_it_beside_the_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    Path("parts.py").write_text("def f(behaviors, fitness):\n    return fitness\n")
    plain_with(folder, "objective", 'name = "weights"\nfunction = "parts:f"')
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    for trust in (False, True, False):
        with contextlib.nullcontext() if trust else pytest.raises(ees_mpi.TrustError, match="parts:f"):
            es = ees_mpi.Strategy(np.ones(3), config=folder / "plain.h5", trust=trust)
            es.tell(es.ask(), np.ones(20))
    assert not os.listdir(os.environ["XDG_STATE_HOME"])


def test_a_text_is_no_consent(stranger: Path) -> None:
    calls: Any = (CALLS["open_run"], CALLS["load_config"], lambda f, **no: ees_mpi.Strategy([1.0], config=f, **no))
    for call in calls:
        with pytest.raises(ees_mpi.EesError, match="trust: expected True or False, got 'no'"):
            call(stranger, trust="no")
    assert not ran()


def test_a_note_does_not_depend_on_the_program_that_trained(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("program.py").write_text("")
    program = types.ModuleType("__main__")
    program.__file__ = str(folder / "program.py")
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "__mp_main__", program)  # as multiprocessing does, which torch imports
        done(*WORDS)
    forget_modules()
    done(*VERIFY)


def test_installed_code_needs_consent_for_its_settings(folder: Path) -> None:
    marker = folder / "marker"
    attack = f"name = 'custom'\nfunction = 'subprocess:Popen'\nsettings.args = ['touch', '{marker}']"
    plain_with(folder, "optimizer", attack)
    for words in (("resume", "plain.h5", "--generations", "2"), ("verify", "plain.h5", "--updates")):
        code, line = refusal(*words)
        assert code == 3 and "optimizer.function = 'subprocess:Popen'" in line
    with pytest.raises(ees_mpi.TrustError, match="subprocess:Popen"):
        ees_mpi.train(ees_mpi.load_config("plain.h5"), "y.h5")
    assert not marker.exists()


CALLS: dict[str, Callable[..., Any]] = {
    "sample": lambda f, **trust: ees_mpi.sample(f, 4, overwrite=True, **trust).close(),
    "measure": lambda f, **trust: ees_mpi.measure(f, count=4, std=0.5, overwrite=True, **trust).close(),
    "train": lambda f, **trust: ees_mpi.train(f, "y.h5", overwrite=True, **trust).close(),
    "open_run": lambda f, **trust: ees_mpi.open_run(f, **trust).config.task.open(0).close(),
    "load_config": lambda f, **trust: ees_mpi.load_config(f, **trust).task.open(0).close(),
}


@pytest.mark.parametrize("first", CALLS)
def test_consent_is_for_one_call_and_leaves_nothing_behind(
    stranger: Path, first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = list(sys.path)
    CALLS[first](stranger, trust=True)
    assert ran() and sys.path == before
    for call in CALLS.values():
        with pytest.raises(ees_mpi.TrustError, match="point:Point"):
            call(stranger)
    assert sys.path == before and not os.listdir(os.environ["XDG_STATE_HOME"])
    monkeypatch.setenv("EES_MPI_TRUST", "1")
    CALLS[first](stranger)
    assert not os.listdir(os.environ["XDG_STATE_HOME"])


def test_the_folder_of_a_run_file_is_searched_only_for_code_that_may_run(
    stranger: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    before = list(sys.path)
    with pytest.raises(ees_mpi.TrustError):
        ees_mpi.sample(stranger, 4)
    assert not ran() and sys.path == before
    ees_mpi.sample(stranger, 4, trust=True).close()
    assert ran() and sys.path == before


CHANGES: dict[str, Callable[[Path], object]] = {
    "the file": lambda folder: (folder / "point.py").write_text(f"{TASK}\n# changed"),
    "what it imported": lambda folder: (folder / "helper.py").write_text("def scale(x):\n    return 2 * x\n"),
    "what it imported while it ran": lambda folder: (folder / "later.py").write_text("x = 1"),
    "what is missing": lambda folder: (folder / "helper.py").unlink(),
    "the state folder": lambda folder: forget_notes(),
    "a damaged note": lambda folder: [
        note.write_text("[1") for note in Path(os.environ["XDG_STATE_HOME"], "ees_mpi").iterdir()
    ],
}


SAID = {  # what a refusal says has changed
    "the file": "point.py",
    "what it imported": "helper.py",
    "what it imported while it ran": "later.py",
}


@pytest.mark.parametrize("change", CHANGES)
def test_code_that_is_not_the_trained_code_asks(mine: Path, change: str) -> None:
    CHANGES[change](mine.parent)
    for words in (VERIFY, SAMPLE, RESUME):
        code, line = refusal(*words)
        assert code == 3 and "task.function = 'point:Point'" in line and "--trust" in line and not ran()
        said = f"'{mine.parent / SAID[change]}' has changed since you trained with it" if change in SAID else "have not"
        assert said in line


def test_earlier_versions_of_the_code_stay_noted(mine: Path) -> None:
    (mine.parent / "point.py").write_text(f"{TASK}\n# changed")
    done("train", "own.toml", "--out", "other.h5")
    for text in (f"{TASK}\n# changed", TASK):
        forget_modules()
        (mine.parent / "point.py").write_text(text)
        done(*VERIFY)


def test_a_copy_of_the_code_elsewhere_asks(
    mine: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    for path in mine.parent.iterdir():
        if path.is_file():
            shutil.copy(path, elsewhere)
    monkeypatch.chdir(elsewhere)
    code, line = refusal(*VERIFY)
    assert code == 3 and f"it was in '{mine.parent}' when you trained with it" in line and not ran()
    Path("point.py").write_text(f"{TASK}\n# another")
    assert "you have not trained with it" in refusal(*VERIFY)[1]
    for path in elsewhere.iterdir():
        path.unlink()
    done("verify", mine)  # the module beside that file is the one that was trained


def test_a_helper_in_the_present_folder_does_not_replace_the_trained_one(
    mine: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    Path("helper.py").write_text("raise AssertionError")
    code, line = refusal("verify", mine)
    assert code == 3 and "point:Point" in line and "helper" not in sys.modules


@pytest.mark.parametrize(
    "setting", ["factor = 2.0\nmore = 'x'", "factor = 3.0", "factor = 2", "factor = '2.0'"], ids=str.split
)
def test_other_settings_of_the_trained_code_ask(mine: Path, setting: str) -> None:
    with edited(mine) as file:
        config = hdf5.attributes(file)["config"]
        assert "factor = 2.0" in config
        hdf5.put(file, {"config": config.replace("factor = 2.0", setting)})
    Path("point.py").write_text(f"{TASK}\n# changed")  # not all that differs
    code, line = refusal(*VERIFY)
    assert code == 3 and "point:Point" in line and "you have not trained with it" in line and not ran()


def test_another_key_or_name_of_the_trained_module_asks(mine: Path) -> None:
    Path("point.py").write_text(f"{TASK}\nOther = Point\n")
    done("train", "own.toml", "--out", "other.h5")
    forget_modules()
    with edited(mine) as file:
        config = hdf5.attributes(file)["config"]
        hdf5.put(file, {"config": config.replace("point:Point", "point:Other")})
    code, line = refusal(*VERIFY)
    assert code == 3 and "point:Other" in line and not ran()


def test_a_package_is_known_by_the_files_above_the_module(folder: Path) -> None:
    (folder / "outer" / "inner").mkdir(parents=True)
    for name in ("outer/__init__.py", "outer/inner/__init__.py"):
        Path(name).write_text("")
    shutil.move("point.py", "outer/inner/point.py")
    text = Path("own.toml").read_text()
    Path("own.toml").write_text(text.replace("point:Point", "outer.inner.point:Point"))
    done(*WORDS)
    forget_modules()
    done(*VERIFY)
    forget_modules()
    Path("outer/__init__.py").write_text("raise AssertionError")
    code, line = refusal(*VERIFY)
    assert code == 3 and "outer.inner.point:Point" in line and "outer" not in sys.modules


def test_a_module_in_a_zip_asks(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.make_archive("code", "zip", root_dir=".", base_dir="point.py")
    Path("point.py").unlink()
    monkeypatch.syspath_prepend(folder / "code.zip")
    done(*WORDS)
    forget_modules()
    code, line = refusal(*VERIFY)
    assert code == 3 and "point:Point" in line


@pytest.mark.parametrize("home", ["", "relative", "/proc/nothing"])
def test_training_goes_on_without_a_folder_for_notes_and_then_asks(
    folder: Path, home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", home)
    monkeypatch.setenv("HOME", "/proc/nothing")
    done(*WORDS)
    forget_modules()
    assert refusal(*VERIFY)[0] == 3 and not ran() and not Path("relative").exists()


def test_consent_is_not_noted_and_resuming_with_it_is_neither(stranger: Path) -> None:
    done(*RESUME, "--trust")
    forget_modules()
    assert refusal(*VERIFY)[0] == 3 and not ran() and not os.listdir(os.environ["XDG_STATE_HOME"])
    done(*WORDS, "--resume", *sets("run.generations=4"))  # the user's own config
    forget_modules()
    done(*VERIFY)


def test_a_note_has_no_code_and_no_settings_in_it(mine: Path) -> None:
    folder = Path(os.environ["XDG_STATE_HOME"], "ees_mpi")
    assert folder.stat().st_mode & 0o77 == 0
    for note in folder.iterdir():
        assert len(note.name) == 81 and "factor" not in note.read_text()


def test_a_loaded_config_finds_the_modules_beside_its_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    before = list(sys.path)
    config = ees_mpi.load_config(folder / "own.toml")
    forget_modules()
    assert config.task.parameters == 3 and sys.path == before
    forget_modules()
    ees_mpi.train(config, "run.h5").close()
    assert ran() and sys.path == before


def test_marks_survive_what_users_do_with_a_config(stranger: Path) -> None:
    config = ees_mpi.open_run(stranger, trust=True).config
    for again in (config.sections(), copy.deepcopy(config).sections(), pickled(config).sections()):
        assert type(again["task"]["function"]) is FromFile and again["task"]["function"] == "point:Point"
    assert type(copy.copy(config.task.function)) is FromFile  # type: ignore[attr-defined]


@pytest.mark.standing_ranks
def test_rank_0_decides_for_all_ranks(mine: Path) -> None:
    for words in (VERIFY, SAMPLE, ("verify", "run.h5", "--updates"), RESUME):
        done(*words, ranks=2)
    forget_notes()
    code, line = refusal(*VERIFY, ranks=2)
    assert code == 3 and "--trust" in line


SLOW_TO_END = """
import os, time
class Slow:
    def __del__(self, sleep=time.sleep):
        sleep(1)
last = Slow() if os.environ["OMPI_COMM_WORLD_RANK"] != "0" else None
from ees_mpi.__main__ import main
main()
"""


def test_a_refusal_under_mpirun_is_one_line(stranger: Path) -> None:
    """The launcher adds none, also if rank 0 ends its interpreter long before the others, as on a busy machine."""
    Path("slow_to_end.py").write_text(SLOW_TO_END)
    failed = run(python("slow_to_end.py", *RESUME, ranks=3))
    assert failed.returncode == 3 and failed.stdout == "", failed
    assert failed.stderr.startswith("ees-mpi: task.function") and failed.stderr.count("\n") == 1, failed.stderr


def test_values_that_a_library_gets_are_noted_by_value(folder: Path) -> None:
    pytest.importorskip("gymnasium")
    task = {
        "name": "gymnasium",
        "env": "CartPole-v1",
        "hidden": [4],
        "steps": 5,
        "env_settings": {"render_mode": "rgb_array"},
    }
    Path("own.toml").write_text(tomli_w.dumps({**CONFIG, "task": task}))
    done(*WORDS)
    done(*VERIFY)
    with edited(folder / "run.h5") as file:
        config = hdf5.attributes(file)["config"]
        hdf5.put(file, {"config": config.replace("rgb_array", "human")})
    code, line = refusal(*VERIFY)
    assert code == 3 and "task.env_settings.render_mode = 'human'" in line
    forget_notes()
    with edited(folder / "run.h5") as file:
        hdf5.put(file, {"config": config})
    assert refusal(*VERIFY)[0] == 3


def test_a_model_that_a_file_names_is_not_read(folder: Path) -> None:
    os.mkfifo("pipe.xml")  # reading it would wait for ever
    plain_with(folder, "task", "name = 'mujoco'\nmodel = 'pipe.xml'\nhidden = [4]")
    with pytest.raises(ees_mpi.TrustError, match=r"task\.model = 'pipe\.xml'"):
        ees_mpi.train(ees_mpi.load_config("plain.h5"), "y.h5")


def test_an_environment_that_another_file_registered_asks(folder: Path) -> None:
    gymnasium = pytest.importorskip("gymnasium")
    gymnasium.register("Hidden-v0", entry_point="gymnasium_hidden:Env")
    plain_with(folder, "task", "name = 'gymnasium'\nenv = 'Hidden-v0'")
    with pytest.raises(ees_mpi.TrustError, match=r"task\.env = 'Hidden-v0'"):
        ees_mpi.train(ees_mpi.load_config("plain.h5"), "y.h5")
    del gymnasium.registry["Hidden-v0"]


def test_the_command_trusts_for_itself_only(stranger: Path) -> None:
    assert ees(*VERIFY, "--trust").returncode == 0 and ran()
    forget_modules()
    assert refusal(*VERIFY)[0] == 3 and not ran()


def train_on_path(folder: Path, monkeypatch: pytest.MonkeyPatch, elsewhere: Path, module: str, code: str) -> None:
    """Train with a module that is on Python's path, and go elsewhere with the run file."""
    monkeypatch.syspath_prepend(folder)
    file = folder / f"{module.replace('.', '/')}.py"
    file.parent.mkdir(exist_ok=True)
    file.write_text(code)
    Path("own.toml").write_text(tomli_w.dumps({**CONFIG, "task": {"name": "custom", "function": f"{module}:Point"}}))
    done(*WORDS)
    forget_modules()
    sys.modules.pop(module.partition(".")[0], None)  # a folder has no file
    shutil.copy("run.h5", elsewhere)
    monkeypatch.chdir(elsewhere)


def test_a_package_in_the_present_folder_does_not_replace_a_trained_folder_without_init(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    train_on_path(folder, monkeypatch, tmp_path_factory.mktemp("elsewhere"), "bare.point", TASK)
    Path("bare").mkdir()
    Path("bare/__init__.py").write_text("raise AssertionError")  # Python prefers it, wherever it is on its path
    done(*VERIFY)
    del sys.modules["bare"]


def test_what_trained_code_can_do_without_is_not_imported_from_the_present_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    optional = "try:\n    import nobody_has_this\nexcept ImportError:\n    pass\n"
    train_on_path(folder, monkeypatch, tmp_path_factory.mktemp("elsewhere"), "useful", f"{optional}{TASK}")
    Path("nobody_has_this.py").write_text("raise AssertionError")
    done(*VERIFY)


def test_consent_for_settings_of_a_file_is_not_noted(folder: Path) -> None:
    pytest.importorskip("gymnasium")
    task = (
        "name = 'gymnasium'\nenv = 'CartPole-v1'\nhidden = [4]\nsteps = 5\nenv_settings = {render_mode = 'rgb_array'}"
    )
    plain_with(folder, "task", task)
    given: dict[str, Any] = {"settings": {"task.env": "CartPole-v1"}, "overwrite": True}
    ees_mpi.train("plain.h5", "y.h5", trust=True, **given).close()
    with pytest.raises(ees_mpi.TrustError, match="render_mode"):
        ees_mpi.train("plain.h5", "y.h5", **given)


def test_what_an_interrupted_training_has_imported_is_noted(folder: Path) -> None:
    def stop(record: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ees_mpi.train("own.toml", "run.h5", on_generation=stop)
    forget_modules()
    Path("later.py").write_text("raise AssertionError")
    assert refusal(*RESUME)[0] == 3 and not ran()


def test_a_refusal_is_one_line_whatever_the_file_names(folder: Path) -> None:
    pytest.importorskip("gymnasium")
    settings = r'env_settings = {"a\nees-mpi: all is well" = "x"}'
    plain_with(folder, "task", f"name = 'gymnasium'\nenv = 'CartPole-v1'\nhidden = [4]\nsteps = 5\n{settings}")
    code, line = refusal("verify", "plain.h5")
    assert code == 3 and r"env_settings.a\nees-mpi" in line and "\n" not in line.strip()


@pytest.mark.parametrize("link", ["useful.py", "useful"])
def test_a_link_to_trained_code_does_not_make_what_is_beside_it_trained(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory, link: str
) -> None:
    optional = "try:\n    import nobody_has_this\nexcept ImportError:\n    pass\n"
    module = "useful" if link == "useful.py" else "useful.point"
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    train_on_path(folder, monkeypatch, elsewhere, module, f"{optional}{TASK}")
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each != str(folder)])
    Path(link).symlink_to(folder / link)
    Path("nobody_has_this.py").write_text("raise AssertionError")
    for name in ("helper.py", "later.py"):
        Path(name).symlink_to(folder / name)
    code, text = refusal(*VERIFY)
    assert code == 3 and f"{module}:Point" in text


def test_a_refusal_says_if_the_module_cannot_be_found_from_here(
    mine: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    shutil.move(mine, elsewhere / "run.h5")
    monkeypatch.chdir(elsewhere)
    code, said = refusal("sample", "run.h5", "--count", "4")
    assert code == 3 and "finds no such file from here" in said
