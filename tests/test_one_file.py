"""jobs/examples/one_file.py: the algorithm in numpy has the bits of the package, and it trains."""

import ast
import importlib.util
from types import ModuleType

import numpy as np
import pytest
from support.program import CHECKOUT

import ees_mpi

EXAMPLE = CHECKOUT / "jobs" / "examples" / "one_file.py"


@pytest.fixture(scope="module")
def one_file() -> ModuleType:
    spec = importlib.util.spec_from_file_location("one_file", EXAMPLE)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_fits_on_two_screens_and_imports_nothing_of_ours() -> None:
    text = EXAMPLE.read_text()
    found = {alias.name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import) for alias in node.names}
    assert found == {"hashlib", "sys", "numpy"} and "\nfrom " not in text and len(text.splitlines()) <= 135


@pytest.mark.parametrize("name", ["maxent", "maxvar"])
def test_its_means_and_mutations_have_the_bits_of_the_package(name: str, one_file: ModuleType) -> None:
    settings = {"noise": {"size": one_file.TABLE}}
    first = np.zeros(one_file.D)
    es = ees_mpi.Strategy(first, name, size=one_file.N, std=one_file.STD, seed=one_file.SEED, config=settings)
    assert es.config.method.optimizer.lr == one_file.RATE
    for generation, (mean, behavior) in enumerate(one_file.train(getattr(one_file, name), 12)):
        z = es.ask()
        np.testing.assert_array_equal(es.mean, mean)
        np.testing.assert_array_equal(z, one_file.mutations(mean, one_file.draw(generation)))
        es.tell(one_file.behaviors(z))
        np.testing.assert_array_equal(one_file.behaviors(z), behavior)
    assert np.abs(mean).max() > 0.05


@pytest.mark.parametrize("name", ["maxent", "maxvar"])
def test_it_trains(name: str, one_file: ModuleType) -> None:
    first, *_, last = (behavior for _, behavior in one_file.train(getattr(one_file, name), 101))
    assert last.std(axis=0).mean() > 2.5 * first.std(axis=0).mean()
    if name == "maxent":  # MaxVar goes to two opposite places
        assert one_file.picture(last).count("o") > 2 * one_file.picture(first).count("o")
