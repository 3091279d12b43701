"""The fixtures of all tests: small configs, and finished runs that many tests read."""

import importlib.util
import os
import re
import shutil
import signal
import sys
from collections.abc import Callable, Generator, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import threadpoolctl

from ees_mpi import machine

machine.pin_threads()  # before anything loads numpy
os.environ["EES_MPI_TRUST"] = "1"  # tests trust the files that they make, except those of trust
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background of a shell ignores Ctrl-C
pytest.register_assert_rewrite("support")

from support.program import STANDING, TINY, forget_modules, train  # noqa: E402
from support.small_runs import Zoo, shared  # noqa: E402

from ees_mpi.config import Config, load  # noqa: E402
from ees_mpi.noise import BLOCK, Noise  # noqa: E402
from ees_mpi.registry.search import FOLDERS  # noqa: E402

# A search for the libraries that have threads takes milliseconds, and a test makes several: here only after an import.
_search, _found = threadpoolctl.ThreadpoolController._load_libraries, dict[frozenset[str], list[Any]]()


def _search_after_imports(self: threadpoolctl.ThreadpoolController) -> None:
    modules = frozenset(sys.modules)
    if modules not in _found:
        _search(self)
        _found.clear()
        _found[modules] = self.lib_controllers
    self.lib_controllers = list(_found[modules])


threadpoolctl.ThreadpoolController._load_libraries = _search_after_imports

# A test that fails because a package of an extra is not installed is skipped.
EXTRAS = ("gymnasium", "imageio_ffmpeg", "matplotlib", "mujoco", "PIL", "pybullet", "scipy", "torch")
EXTRAS += ("array_api_compat", "array_api_strict", "pybullet_envs_gymnasium", "tensorboardX", "xarray")
ABSENT = [name for name in EXTRAS if importlib.util.find_spec(name) is None]
NEEDED = re.compile(rf"No module named '({'|'.join(ABSENT)})'|pip install 'ees_mpi\[")


def skip_if_it_is_absent(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Turn a failure into a skip if its text says that a package is not installed."""
    if report.failed and ABSENT and (found := NEEDED.search(report.longreprtext)):
        report.outcome = "skipped"
        report.longrepr = (report.nodeid, 0, f"{found[0]} (see tools/setup.sh)")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    skip_if_it_is_absent(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    skip_if_it_is_absent(report)
    return report


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "standing_ranks: calls `ees` or `done` with ranks, which one worker starts once")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests that need a GPU unless `-m` names them, and put the slow ones last, the longest first.

    Workers of xdist take the tests in parts, and steal from the ends of parts: no worker begins a long test when the
    others have nothing left. The tests on standing ranks come first: one worker gets them all, so that these ranks
    start and import once instead of once per worker.
    """
    if "gpu" not in config.option.markexpr:
        config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("gpu")])
        items[:] = [item for item in items if not item.get_closest_marker("gpu")]
    items.sort(key=lambda item: not any(mark.kwargs for mark in item.iter_markers("slow")))
    items.sort(key=lambda item: item.get_closest_marker("slow") is not None)
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: item.get_closest_marker("standing_ranks") is None)


def pytest_sessionfinish() -> None:
    """End the ranks that stand ready; at the exit of a process, xdist would not wait for them."""
    from support.standing_ranks import end_all

    end_all(list(STANDING.values()))


@pytest.fixture
def tiny() -> Callable[..., Config]:
    """Make a small config: tiny(preset, *settings)."""
    return lambda preset="interference-maxvar", *settings: load(preset, [*TINY, *settings])


@pytest.fixture
def quick_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fill large noise tables of this process with copies of one block: 2**25 random numbers take a second."""
    make = Noise._make_block
    first = cache(lambda seed: make(Noise(seed, BLOCK), 0))
    monkeypatch.setattr(Noise, "_make_block", lambda self, block: first(self.seed)[: self.size - block * BLOCK])


@pytest.fixture
def quick_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make figures in this process, but do not put them on paper, which takes most of the time: for tests of others."""
    figure = pytest.importorskip("matplotlib.figure").Figure
    save = figure.savefig

    def write(self: Any, target: Any, **how: Any) -> None:
        if isinstance(target, Path):
            target.write_bytes(b"\x89PNG")
        else:
            save(self, target, **how)

    monkeypatch.setattr(figure, "savefig", write)


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run file; tests do not change it."""
    return shared(tmp_path_factory, "finished", train)


@pytest.fixture
def copied(finished: Path, tmp_path: Path) -> Path:
    """A copy of the finished run, which a test may change."""
    return Path(shutil.copy(finished, tmp_path / "copy.h5"))


@pytest.fixture
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a test, in which its commands run; modules in it are forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    FOLDERS.clear()
    forget_modules()


def robot(name: str, preset: str, *settings: str) -> Callable[..., Path]:
    """Return a fixture: a run of a walking robot for a few steps, which tests do not change."""
    small = ("population.size=6", "task.steps=12", "noise.size=100000", "run.evaluate_mean_every=2")

    def walk(path: Path) -> None:
        pytest.importorskip("pybullet", exc_type=ImportError)
        train(path, preset, *small, "run.generations=3", *settings)

    return pytest.fixture(scope="session", name=name)(
        lambda tmp_path_factory: shared(tmp_path_factory, f"walking-{name}", walk)
    )


cheetah = robot("cheetah", "cheetah-maxent")
ant = robot("ant", "ant-maxent")
species = robot("species", "ant-maxent-mixture", "task.behavior_steps=[6,12]")  # two means, positions at two steps
WALKED = ("run.generations=2", "task.steps=10", "task.observation_share=1.0")  # all rollouts are observed
walked = robot("walked", "cheetah-maxvar", *WALKED)


@pytest.fixture(scope="session")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Zoo:
    """Small runs of many kinds, by name."""
    return Zoo(tmp_path_factory)


@pytest.fixture
def browser() -> Iterator[Any]:
    """A headless Chromium that keeps a record of what it fetches and of what its console says."""
    driver, names = shutil.which("chromedriver"), ("chromium", "chromium-browser", "google-chrome")
    program = next(filter(None, map(shutil.which, names)), None)
    if not driver or not program:
        pytest.skip("needs chromium and chromedriver (Debian: apt install chromium chromium-driver)")
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = program
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    started = webdriver.Chrome(options=options, service=Service(driver))
    yield started
    started.quit()
