"""Plain functions as tasks, named in a config."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.program import done, forget_modules

import ees_mpi
from ees_mpi.run.evaluators import calls_of
from ees_mpi.tasks.own import ROWS

SMALL = {"population.size": 2 * ROWS + 10, "run.generations": 3, "noise.size": 5000, "run.fsync": False}
PARTS = {"population": {"name": "normal", "std": 0.02}, "objective": {"name": "maxent"}}


@pytest.fixture(autouse=True)
def folder(inside: Path) -> Path:
    return inside


def train(text: str, settings: Any = (), **more: Any) -> ees_mpi.Run:
    """Train the function `f` of a module with this text."""
    Path("mine.py").write_text(f"import sys\nimport numpy as np\n{text}\n")
    forget_modules()
    task = {"name": "function", "function": "mine:f", "parameters": 3, "behavior_dim": 2}
    return ees_mpi.train(
        {"task": {**task, **more}, **PARTS}, "run.h5", settings={**SMALL, **dict(settings)}, overwrite=True
    )


def test_a_function_a_callable_object_and_one_with_a_fitness_are_tasks() -> None:
    texts = (
        "f = lambda z: list(np.sin(z[:2]).astype(float) * z[2])",
        "f = lambda z: (np.sin(z[:2]).astype(float) * z[2], 3.0)",
        "class F:\n    def __call__(self, z):\n        return np.sin(z[:2]).astype(float) * z[2]\nf = F()",
    )
    digests = set()
    for text in texts:
        with train(text, start=0.5) as run:
            digests.add(run["state_sha256"][-1])
            assert "3.0" not in text or (run["fitness"][:] == 3.0).all()
            np.testing.assert_array_equal(run["mean"][0], np.full((1, 3), 0.5, np.float32))
    assert len(digests) == 1


def test_an_objective_that_needs_a_fitness_refuses_a_function_that_returns_none() -> None:
    with pytest.raises(ees_mpi.ConfigError, match="mine:f: the objective needs a fitness"):
        train("f = lambda z: z[:2]", {"objective.name": "fitness"})
    train("f = lambda z: (z[:2], z[0])", {"objective.name": "fitness"}).close()


@pytest.mark.parametrize(
    ("returned", "objective", "told"),
    [
        ("(1.0, z[0])", "maxent", "generation 0: behavior[0] is 1 in all 138 valid individuals. What does not vary"),
        ("(1.0, 2.0)", "maxent", "behavior[0] is 1, behavior[1] is 2 in all 138 valid individuals"),
        ("((1.0, z[0]), 3.0)", "fitness", "generation 0: fitness is 3 in all 138 valid individuals"),
        ("((1.0, 2.0), z[0])", "fitness", ""),
        ("(z[0], z[1])", "novelty", ""),
    ],
)
def test_numbers_that_never_vary_are_told_once(
    returned: str, objective: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    train(f"f = lambda z: {returned}", {"objective.name": objective}).close()
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("warning: generation")]
    assert len(lines) == bool(told) and all(told in line for line in lines)


@pytest.mark.slow
def test_a_batch_has_the_same_rows_for_any_number_of_missing_individuals() -> None:
    text = "calls = []\ndef f(z):\n    calls.append(len(z))\n    return np.sin(z[:, :2]), z[:, 0]"
    with train(text, batch=True):
        from mine import calls  # type: ignore[import-not-found]

    assert calls[:9] == [1] + [ROWS] * 8 and set(calls[9:]) == {ROWS, 10, 1}  # the checks first; the mean is alone
    seen = len(calls)
    assert calls_of([499, 500], 500, 64) == [range(448, 500), range(500, 501)]
    done("verify", "run.h5", "--individuals", 3)
    assert set(calls[seen:]) == {ROWS, 10, 1}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("z", r"a behaviour of shape \(3,\) and a fitness of shape \(\); expected \(2,\) and \(\)"),
        ("1 / 0", r"f\(\) raised ZeroDivisionError"),
        (
            "(z[:2], 'a')",
            r"what f\(\) returned raised TypeError: real numbers are needed, not None, texts",
        ),
    ],
)
def test_a_faulty_function_is_refused_early(text: str, message: str) -> None:
    with pytest.raises(ees_mpi.ConfigError, match=message):
        train(f"def f(z):\n    return {text}")
    assert not Path("run.h5").exists()


def test_an_error_in_a_later_generation_names_the_individual() -> None:
    with pytest.raises(ees_mpi.EesError, match=r"generation 0, individual 0: .*f\(\) raised SystemExit"):
        train("def f(z):\n    return sys.exit() if z[0] else z[:2]")  # as quiet as can be


def test_a_name_without_a_colon_is_refused() -> None:
    with pytest.raises(ees_mpi.ConfigError, match=r"task.function: expected package.module:name, got 'mine.f'"):
        train("", function="mine.f")


def test_the_means_of_a_mixture_begin_apart_and_go_on_apart() -> None:
    mixture = {"population.name": "mixture", "population.std": 0.3, "run.generations": 20}
    with train("def f(z):\n    return np.tanh(z[:2])", mixture) as run:
        apart = [np.linalg.norm(first - second) for first, second in run["mean"]]
    assert 0.1 < apart[0] < 2 and apart[-1] > 1.5 * apart[0]
