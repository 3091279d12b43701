"""The user's own parts: the examples of the documentation, and parts that are wrong in one way each."""

from pathlib import Path

import numpy as np
import pytest
from support.own_parts import EXAMPLES, MODULES, write
from support.program import CHECKOUT, done, ees, info, sets

from ees_mpi import open_run
from ees_mpi.config import load
from ees_mpi.errors import ConfigError
from ees_mpi.registry import plugins, search

pytestmark = pytest.mark.usefixtures("inside")


@pytest.mark.parametrize("heading", EXAMPLES)
def test_every_example_of_the_page_trains_and_has_the_same_bits_again(heading: str, tmp_path: Path) -> None:
    (tmp_path / "configs").mkdir()
    write(tmp_path / "configs", heading, generations=3)  # the present folder is another one
    done("train", "configs/own.toml", "--out", "run.h5")
    assert info(Path("run.h5"))["generations"] == 3
    done("verify", "run.h5", "--individuals", 4)
    if heading == "A Gymnasium environment":  # whose fitness is the reward
        assert "towards left" in done("adapt", "run.h5", "--direction", "left", "--mutations", 2).stdout


def test_the_examples_in_the_folder_of_job_scripts_train(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(CHECKOUT)
    small = sets("population.size=4", "task.steps=4", "noise.size=100000", "run.generations=2", "run.fsync=false")
    for name, count in (("Rectified", 6278), ("Gated", 5958)):
        out = tmp_path / f"{name}.h5"
        own_network = sets(f"task.policy=jobs.examples.own_policy:{name}")
        done("train", "cheetah-maxent", *small, *own_network, "--out", out)
        assert info(out)["parameters"] == count
        done("replay", out, "--individual", 1)  # compares the bits
    done("adapt", out, "--direction", "left", "--mutations", 2, "--evaluations", 1, "--out", tmp_path / "a.h5")


@pytest.mark.slow
def test_analysis_and_updates_work_with_own_parts(tmp_path: Path) -> None:
    write(tmp_path, "A population", generations=3)
    done("train", "own.toml", "--out", "run.h5")
    done("verify", "run.h5", "--updates")
    done("report", "run.h5", "-o", "report.html")
    done("metrics", "run.h5")
    done("train", "own.toml", "--from", "run.h5", "--out", "further.h5")
    done("sample", "run.h5", "--count", 3, "--out", "sample.h5")
    done("verify", "sample.h5")
    with open_run("run.h5") as run, open_run("further.h5") as further, open_run("sample.h5") as sample:
        learned = run.state_arrays()["log_std"]
        assert learned.shape == (1,) and learned != run["learned"][0] and run["learned"][0] == np.float32(np.log(0.5))
        np.testing.assert_array_equal(further["learned"][0], learned)
        np.testing.assert_array_equal(sample["learned"][0], learned)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["task.policy_settings.scale=2.0"], "set task.policy_settings.scale=0.5"),
        (["task.policy=other:Linear"], 'set task.policy="linear:Linear"'),
    ],
)
def test_another_function_of_the_same_parameters_is_refused(changes: list[str], message: str, tmp_path: Path) -> None:
    write(tmp_path, "A policy", generations=2)
    (tmp_path / "other.py").write_text((tmp_path / "linear.py").read_text())
    done("train", "own.toml", "--out", "run.h5")
    done("export", "run.h5", "--policy", "-o", "policy.npz")
    for start in ("run.h5", "policy.npz"):
        refused = ees("train", "own.toml", *sets(*changes), "--from", start, "--out", "further.h5")
        assert refused.returncode == 2 and message in refused.stderr, refused.stderr
    done("train", "own.toml", "--from", "policy.npz", "--out", "further.h5")


@pytest.mark.parametrize("changed", ["task.activation=relu", "task.action_scale=[2.0]"])
def test_a_setting_of_the_built_in_network_is_refused_beside_ones_own(changed: str, tmp_path: Path) -> None:
    write(tmp_path, "A policy")
    refused = ees("train", "own.toml", *sets(changed), "--out", "run.h5")
    assert refused.returncode == 2 and changed.partition("=")[0] in refused.stderr and "leave it out" in refused.stderr


def test_a_policy_of_ones_own_is_exported_as_the_vector_that_its_class_loads(tmp_path: Path) -> None:
    write(tmp_path, "A policy", generations=2)
    done("train", "own.toml", "--out", "run.h5")
    done("export", "run.h5", "--policy", "-o", "exported.npz")
    with open_run("run.h5") as run, np.load("exported.npz") as file:
        np.testing.assert_array_equal(file["parameters"], run.state_arrays()["mean"][0])
        assert file["observation_mean"].shape == file["observation_std"].shape == (2,)
    done("train", "own.toml", "--from", "exported.npz", "--out", "further.h5")
    done("sample", "exported.npz", "--count", 3, "--out", "sample.h5")


def broken(heading: str, old: str, new: str, **run: object) -> tuple[int, str, str]:
    """Train an example after a change of its code; return the exit code, the message, and the lines behind it."""
    write(Path(), heading, **run)
    name = next(name for name, text in MODULES.items() if old in text)
    Path(name).write_text(MODULES[name].replace(old, new))
    failed = ees("train", "own.toml", "--out", "run.h5")
    first, *lines = failed.stderr.splitlines()
    assert "Traceback" not in failed.stderr and first.startswith("ees-mpi: "), failed.stderr
    return failed.returncode, first.removeprefix("ees-mpi: "), "\n".join(lines)


WRONG = [
    ("A task", "def open(self, seed)", "def close_(self)", "throwing:Throw: expected a class with parameters, behavi"),
    ("A task", "import math\n", "import maths\n", "importing it raised ModuleNotFoundError: No module named 'maths'"),
    ("A task", "= 2, 1", "= 2, 1; observation_dim = property(lambda self: self.a)", "observation_dim raised Attri"),
    ("A task", "(landed,)", "(landed, 1.0)", "a behaviour of shape (2,); expected ees_mpi.generation.Outcome with (1,"),
    ("A policy", "self.scale * np", "np.zeros(3) + np", "linear:Linear: act() returned the shape (3,); expected (1,)"),
    ("A policy", "0.1 * generator.standard_normal(self.count)", "'far'", "Linear: initial() raised ValueError: could"),
    (
        "A population",
        "np.ones(self.size, int)",
        "[[1], [1, 2]]",
        "OneSpread: draw() raised ValueError: setting an array",
    ),
    ("A population", '"mean": mean[None]', '"mean": mean', "gradient() returned arrays of the shapes {'log_std': (1,)"),
    ("An optimizer", "for name in learned}, speed", "for name in learned}", "as the moments returned NoneType"),
    ("A behaviour", "len(seen) // 2", "len(seen) // 0", "behaviors:middle_and_end: middle_and_end() raised ZeroDivi"),
    ("A behaviour", "return [", "return ['left', 'right'] or [", "numbers in a flat sequence, got"),
    ("A Gymnasium environment", "self.x, self.speed = 0.0, 0.1", "pass", "reset() or step() raised AttributeError"),
    ("A Gymnasium environment", "False, False, {}", "{}", "to return a four or five element tuple"),
    ("An objective in torch", "** power", "** power[0]", "objectives:outermost: outermost() raised TypeError"),
]


@pytest.mark.parametrize(("heading", "old", "new", "message"), WRONG)
def test_a_wrong_part_is_refused_before_the_run_file_is_created(heading: str, old: str, new: str, message: str) -> None:
    code, first, lines = broken(heading, old, new)
    assert code == 2 and message in first, first
    assert "contextlib.py" not in lines and (lines or "element tuple" not in first)
    assert not Path("run.h5").exists()


LATER = [  # a condition that becomes true after a while, in front of a line
    ("A policy", "return self.scale", "abs(self.matrix[0, 0]) > 1.5", "act()"),
    ("An optimizer", "speed = {", "abs(moments['mean'][0, 0]) > 0.3", "step()"),
    ("A Gymnasium environment", "self.x +=", "self.x > 3", "reset() or step()"),
]


@pytest.mark.parametrize(("heading", "line", "condition", "call"), LATER, ids=[each[0] for each in LATER])
def test_a_later_error_names_call_generation_and_lines(heading: str, line: str, condition: str, call: str) -> None:
    code, first, lines = broken(heading, line, f"{condition} and 1 / 0; {line}", generations=200)
    assert code in (1, 2) and first.startswith("generation "), first
    assert f"{call} raised ZeroDivisionError: division by zero" in first and "ees_mpi" not in lines
    assert ", line " in lines and "1 / 0" in lines and "wrappers" not in lines
    individual = heading not in ("A population", "An optimizer")
    assert (", individual " in first) is individual
    if code == 2:  # one of the first rollouts, which check that the code is deterministic
        assert first.startswith("generation 0") and not Path("run.h5").exists()
        return
    with open_run("run.h5") as run:
        assert first.startswith(f"generation {run.generations}")


def test_a_module_of_the_same_name_beside_another_config_is_not_confused(tmp_path: Path) -> None:
    configs = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        configs.append(str(write(tmp_path / name, "A task")))
    assert load(configs[0]).task.parameters == load(configs[0]).task.parameters == 2
    with pytest.raises(ConfigError, match=r"has imported .*one/throwing\.py for another config; start a new proc"):
        _ = load(configs[1]).task.parameters


def test_digests_are_those_of_the_module_of_the_config_and_of_what_it_imports_from_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "below_digests").mkdir()
    for name in ("one_digests", "two_digests", "near_digests", "near_digests_2", "below_digests/far"):
        (tmp_path / f"{name}.py").touch()
    imports = "import below_digests.far, near_digests, near_digests_2"
    (tmp_path / "one_digests.py").write_text(f"{imports}\n")
    for name in ("one_digests", "two_digests"):
        plugins.import_module(name, f"{name}:f", "task.function")
    noted = [{*search.sources(f'function = "{name}:f"')} for name in ("one_digests", "two_digests")]
    names = ("one_digests", "near_digests", "near_digests_2", "below_digests.far")
    assert noted[0] >= {f"own_code {name}" for name in names}
    assert "own_code two_digests" in noted[1] and "own_code one_digests" not in noted[1]
