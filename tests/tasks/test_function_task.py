"""Plain functions as tasks: given to `ees_mpi.train` as objects, or named in a config."""

import hashlib
import inspect
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support.program import done, refusal

import ees_mpi
from ees_mpi.config import load
from ees_mpi.generation import evaluation
from ees_mpi.tasks.function import _GIVEN, ROWS

SMALL = {"population.size": 2 * ROWS + 10, "run.generations": 3, "noise.size": 5000, "run.fsync": False}
SHAPE = {"parameters": 3, "behavior_dim": 2}
MATRIX = np.random.default_rng(0).normal(size=(3, 2)).astype(np.float32)


def single(z: NDArray[Any]) -> NDArray[Any]:
    return np.sin(z[:2]).astype(float) * z[2]


def several(z: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    return np.sin(z @ MATRIX), z[:, 0]


def train(out: Path, task: Any, **more: Any) -> str:
    """Train a function and return the digest of the last state."""
    options: dict[str, Any] = {"settings": SMALL, **SHAPE, **more}
    with ees_mpi.train(out=out, task=task, **options) as run:
        return str(run["state_sha256"][-1].decode())


def test_a_function_a_lambda_a_closure_and_a_callable_object_are_tasks(tmp_path: Path) -> None:
    class Callable:
        def __call__(self, z: NDArray[Any]) -> NDArray[Any]:
            return single(z)

    tasks = [single, lambda z: list(single(z)), lambda z: (single(z), 3.0), Callable()]
    words = {"settings": {**SMALL, "task.start": 0.5}}
    assert len({train(tmp_path / f"{number}.h5", task, **words) for number, task in enumerate(tasks)}) == 1
    with ees_mpi.open_run(tmp_path / "2.h5") as run:
        assert (run["fitness"][:] == 3.0).all() and run.config.method.algorithm == "maxent"
        np.testing.assert_array_equal(run["mean"][0], np.full((1, 3), 0.5, np.float32))
        task = run.config.sections()["task"]
        assert task["function"].endswith("<lambda>") and task["source"] == ""


def test_the_file_keeps_the_name_and_the_hash_of_the_source_and_the_source_if_it_is_wanted(tmp_path: Path) -> None:
    train(tmp_path / "run.h5", single)
    train(tmp_path / "kept.h5", single, keep_source=True)
    source = inspect.getsource(single)
    for name, text in (("run", ""), ("kept", source)):
        with ees_mpi.open_run(tmp_path / f"{name}.h5") as run:
            task = run.config.sections()["task"]
        assert task["source"] == text and task["sha256"] == hashlib.sha256(source.encode()).hexdigest()
        assert task["function"] == f"{__name__}.single"
    with ees_mpi.train(tmp_path / "kept.h5", task=single, resume=True, settings={"run.generations": 4}) as run:
        assert run.generations == 4  # neither the shapes nor keep_source must be given again


@pytest.mark.slow
def test_a_batch_has_the_same_rows_for_any_number_of_missing_individuals(tmp_path: Path) -> None:
    calls: list[int] = []
    out = tmp_path / "run.h5"

    def counting(z: NDArray[Any]) -> Any:
        calls.append(len(z))
        return several(z)

    train(out, counting, batch=True, settings={**SMALL, "run.generations": 1})
    assert calls == [*[1] * 9, ROWS, ROWS, 10, 1]  # the checks; the mean
    config = load("interference-maxvar")
    assert [evaluation.call_of(index, 64, config) for index in (499, 500)] == [range(448, 500), range(500, 501)]
    done("verify", out, "--individuals", 3)  # in this process, which has the function
    assert set(calls[13:]) == {ROWS, 10}


@pytest.mark.parametrize(
    ("task", "more", "message"),
    [
        (lambda z: z, {}, r"a behaviour of shape \(3,\) and a fitness of shape \(\); expected \(2,\) and \(\)"),
        (lambda z: 1 / 0, {}, r"<lambda>\(\) raised ZeroDivisionError"),
        (lambda z: (z[:2], "a"), {}, r"returned .*'a'\); expected a behaviour of shape \(2,\), or .*, not None, texts"),
        (lambda z: np.array(["1", z[0]], object), {}, r"or a behaviour and a fitness: .* NaN marks a failed rollout"),
        (lambda z: [None, z[0]], {}, r"returned \[None, .*\]; expected a behaviour of shape \(2,\), or .*None"),
        (lambda z: ([1.0], 2.0, 3.0), {}, r"returned \(\[1.0\], 2.0, 3.0\); expected a behaviour of shape"),
        (lambda z: z[:2], {"mean": [1.0]}, r"mean: expected 3 finite numbers, got shape \(1,\)"),
    ],
)
def test_a_faulty_function_is_refused_early(task: Any, more: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ees_mpi.ConfigError, match=message):
        train(tmp_path / "run.h5", task, **more)
    assert not list(tmp_path.iterdir())


def test_an_error_in_a_later_generation_names_the_individual(tmp_path: Path) -> None:
    def fails(z: NDArray[Any]) -> Any:
        return sys.exit() if z[0] else z[:2]  # as quiet as can be

    with pytest.raises(ees_mpi.EesError, match=r"generation 0, individual 0: .*fails\(\) raised SystemExit"):
        train(tmp_path / "run.h5", fails)


def test_a_name_without_a_colon_is_refused_if_no_program_gave_it(tmp_path: Path) -> None:
    task = {"name": "function", "function": "module.f", **SHAPE}
    parts = {"population": {"name": "normal", "size": 4, "std": 0.1}, "objective": {"name": "maxvar"}}
    with pytest.raises(ees_mpi.ConfigError, match=r"task.function: expected package.module:name, got 'module.f'"):
        ees_mpi.train({"task": task, **parts}, tmp_path / "run.h5", settings=SMALL)
    assert not list(tmp_path.iterdir())


def test_nothing_runs_from_a_file_or_with_another_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "run.h5"
    train(out, single, keep_source=True)
    with pytest.raises(ees_mpi.ConfigError, match=r"begun with another config: task.function is .*; task.sha256"):
        ees_mpi.train(out, task=lambda z: z[:2], resume=True)
    monkeypatch.setattr("ees_mpi.tasks.function._GIVEN", {})  # as in another process
    for words in (["verify"], ["replay"], ["sample", "--count", "4"], ["resume", "--generations", "9"]):
        code, said = refusal(*words, out)
        assert code == 3 and "was the Python function" in said and "which is not in the file" in said, said
    done("verify", "--updates", out)
    assert f"source = {inspect.getsource(single)!r}"[:20] in done("config", out).stdout.replace('"', "'")
    assert _GIVEN  # the one of this process is still there


def test_an_objective_needs_trust_also_if_the_task_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    objective = {"objective.name": "custom", "objective.function": "support.own_objectives:distance_variance"}
    train(tmp_path / "run.h5", single, settings={**SMALL, **objective})
    monkeypatch.delenv("EES_MPI_TRUST")
    for call in (
        lambda: ees_mpi.train(tmp_path / "run.h5", tmp_path / "new.h5", task=single),
        lambda: ees_mpi.Strategy(np.ones(3), config=tmp_path / "run.h5"),
    ):
        with pytest.raises(ees_mpi.TrustError, match="the file would run or load"):
            call()
