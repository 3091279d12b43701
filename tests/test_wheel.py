"""The wheel works by itself: it is made from the sdist, and installed into an empty environment elsewhere."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest
from support.program import BIN, CHECKOUT, TINY, environment, sets

PACKAGE = CHECKOUT / "ees_mpi"
NO_SOURCES = ("__pycache__", "site.sh")
MADE = ("build", "dist", "runs")  # in the checkout itself


def left_out(folder: str, names: list[str]) -> list[str]:
    """Return the entries of a folder that are not sources."""
    made = MADE if Path(folder) == CHECKOUT else ()
    return [
        name for name in names if name.startswith(".") or name.endswith(".egg-info") or name in (*NO_SOURCES, *made)
    ]


def build(kind: str, source: Path, out: Path) -> Path:
    """Call the build backend as `python -m build` does, without the network; return the archive."""
    program = f"from setuptools import build_meta; print(build_meta.build_{kind}({str(out)!r}))"
    done = subprocess.run([sys.executable, "-c", program], cwd=source, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return out / done.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sdist of a copy of the checkout, with the settings of a site that must not get into it."""
    folder = tmp_path_factory.mktemp("sdist")
    copy = Path(shutil.copytree(CHECKOUT, folder / "copy", symlinks=True, ignore=left_out))
    (copy / "jobs" / "site.sh").write_text("# this site")
    return build("sdist", copy, folder)


@pytest.fixture(scope="module")
def wheel(sdist: Path) -> Path:
    subprocess.run(["tar", "-xzf", sdist, "-C", sdist.parent], check=True)
    return build("wheel", sdist.parent / sdist.name.removesuffix(".tar.gz"), sdist.parent)


@pytest.fixture(scope="module")
def empty(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel; the packages that it needs are those of this environment."""
    folder = tmp_path_factory.mktemp("empty")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin" / "python"
    subprocess.run([BIN / "pip", "--python", python, "install", "-qq", "--no-deps", "--no-index", wheel], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")  # not its own .pth files: no checkout
    return folder


def run(empty: Path, *words: object) -> str:
    """Run a program of the empty environment, in its folder."""
    env = {name: value for name, value in environment().items() if name != "PYTHONPATH"}
    line = [empty / "bin" / str(words[0]), *map(str, words[1:])]
    done = subprocess.run(line, cwd=empty, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def test_the_wheel_has_every_preset_every_page_and_every_job_script_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    for folder in ("presets", "docs", "jobs"):
        files = [*(PACKAGE / folder).iterdir(), *(PACKAGE / folder / "examples").glob("*")]
        expected = {f"ees_mpi/{file.relative_to(PACKAGE)}" for file in files if file.is_file()} - {
            "ees_mpi/jobs/site.sh"
        }
        assert expected and {name for name in names if name.startswith(f"ees_mpi/{folder}/")} == expected
    assert {name.split("/")[0].split("-")[0] for name in names} == {"ees_mpi"}


def test_the_sdist_has_the_job_scripts_but_no_settings_of_a_site(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"ees_mpi/jobs/train.sh", "ees_mpi/docs/format.md", "LICENSE", "README.md"} <= names
    assert not [name for name in names if name.endswith(("site.sh", ".pyc"))]


def test_the_installed_wheel_trains_a_preset_draws_a_figure_and_prints_its_pages(empty: Path) -> None:
    assert run(empty, "python", "-c", "import ees_mpi; print(ees_mpi.__file__)").startswith(str(empty))
    run(empty, "ees-mpi", "train", "interference-maxvar", *sets(*TINY), "--out", "run.h5")
    run(empty, "ees-mpi", "figure", "interference", "run.h5", "-o", "figure.png")
    assert (empty / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert run(empty, "ees-mpi", "docs", "format").strip()


def test_the_installed_wheel_brings_job_scripts_that_run(empty: Path) -> None:
    run(empty, "ees-mpi", "jobs", "--copy", "jobs")
    assert os.access(empty / "jobs" / "train.sh", os.X_OK)
    env = environment(PATH=f"{empty}/bin:{os.environ['PATH']}", EES_LAUNCH="env")
    del env["PYTHONPATH"]
    line = ["bash", "jobs/train.sh", "interference-maxvar", *sets(*TINY)]
    done = subprocess.run(line, cwd=empty, env=env, capture_output=True, text=True)
    assert done.returncode == 0 and len(list((empty / "runs").glob("interference-maxvar-*seed0.h5"))) == 1, done.stderr
