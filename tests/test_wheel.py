"""The wheel works by itself: it is made from the sdist, and installed into an empty environment elsewhere."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import make_release
import pytest
from support.program import BIN, CHECKOUT, TINY, environment, sets

MADE = ("build", "dist", "runs")  # in the checkout itself


def left_out(folder: str, names: list[str]) -> list[str]:
    """Return the entries of a folder that are not sources."""
    made = ("__pycache__", *(MADE if Path(folder) == CHECKOUT else ()))
    return [name for name in names if name.startswith(".") or name.endswith(".egg-info") or name in made]


def build(kind: str, source: Path, out: Path) -> Path:
    """Call the build backend as `python -m build` does, without the network; return the archive."""
    program = f"import build_backend; print(build_backend.build_{kind}({str(out)!r}))"
    env = {**os.environ, "PYTHONPATH": str(source / "tools")}
    done = subprocess.run([sys.executable, "-c", program], cwd=source, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return out / done.stdout.splitlines()[-1]


def install(wheel: Path, folder: Path) -> None:
    """Make an environment with the wheel; the packages that it needs are those of this environment."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin" / "python"
    options = ("-qq", "--no-deps", "--no-index", "--no-compile")
    subprocess.run([BIN / "pip", "--python", python, "install", *options, wheel], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")  # not its own .pth files: no checkout


def run(empty: Path, *words: object) -> str:
    """Run a program of the empty environment, in its folder."""
    env = {name: value for name, value in environment().items() if name != "PYTHONPATH"}
    line = [empty / "bin" / str(words[0]), *map(str, words[1:])]
    done = subprocess.run(line, cwd=empty, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


@pytest.mark.slow(long=True)
def test_the_wheel_of_the_sdist_has_every_source_and_works_by_itself(tmp_path: Path) -> None:
    copy, empty = shutil.copytree(CHECKOUT, tmp_path / "copy", ignore=left_out), tmp_path / "empty"
    sdist = build("sdist", copy, tmp_path)
    subprocess.run(["tar", "-xzf", sdist, "-C", tmp_path], check=True)
    wheel = build("wheel", tmp_path / sdist.name.removesuffix(".tar.gz"), tmp_path)
    check_that_every_source_is_in_it_and_nothing_else(wheel, sdist)
    install(wheel, empty)
    check_that_an_editable_install_has_the_same_job_scripts(copy, empty)
    check_that_its_job_scripts_are_copied_and_a_sweep_is_bash(empty)
    check_that_it_draws_and_prints(empty)


def check_that_every_source_is_in_it_and_nothing_else(wheel: Path, sdist: Path) -> None:
    copy = sdist.parent / "copy"
    made = ("build/", "ees_mpi.egg-info/")
    sources = {str(path.relative_to(copy)) for path in copy.rglob("*") if path.is_file()}
    sources = {name for name in sources if not name.startswith(made) and "__pycache__" not in name}
    assert not make_release.stray(wheel, sources) and not make_release.stray(sdist, sources)
    assert {"jobs/train.slurm", "tests/conftest.py", "tools/test"} <= set(make_release.names_in(sdist))
    needed = {"ees_mpi/jobs/train.slurm", "ees_mpi/jobs/examples/own_task.toml"}
    assert needed | {"ees_mpi/tasks/mujoco/replica/action.cpp"} <= set(make_release.names_in(wheel))
    (few,) = (name for name in sources if name.endswith("format.md"))
    wrong = make_release.stray(sdist, sources - {few} | {"tests/forgotten.py"})
    assert [each.partition(": ")[2] for each in wrong] == [
        f"{few} should not be in it",
        "tests/forgotten.py is not in it",
    ]


def check_that_an_editable_install_has_the_same_job_scripts(copy: Path, empty: Path) -> None:
    made, editable = copy.parent / "made", copy.parent / "editable"
    made.mkdir()
    install(build("editable", copy, made), editable)
    assert run(editable, "ees-mpi", "jobs") == run(empty, "ees-mpi", "jobs")
    (editable / "ees_mpi").mkdir()  # as for a script beside a checkout, whose folder has the name of the package
    assert run(editable, "python", "-c", "import ees_mpi; print(ees_mpi.Strategy)").startswith("<class")


def test_the_list_of_packages_has_every_folder_of_modules() -> None:
    with (CHECKOUT / "pyproject.toml").open("rb") as file:
        listed = tomllib.load(file)["tool"]["setuptools"]["packages"]
    folders = {path.parent.relative_to(CHECKOUT) for path in (CHECKOUT / "ees_mpi").rglob("*.py")}
    assert listed == sorted({*(".".join(folder.parts) for folder in folders), "ees_mpi.jobs"}), (
        "pyproject.toml, tool.setuptools.packages: list every folder of the package, in this order"
    )


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_a_release_needs_a_clean_tree_a_changelog_and_a_new_version(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run(["git", *who, *words], cwd=tmp_path, check=True, capture_output=True)

    (tmp_path / "ees_mpi").mkdir()
    (tmp_path / "ees_mpi" / "version.py").write_text('__version__ = "1.0"\n')
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## 1.0\n")
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "first")
    assert make_release.problems(tmp_path) == []
    git("tag", "v1.0")
    (tmp_path / "stray.txt").write_text("")
    git("commit", "-q", "--allow-empty", "-m", "second")
    assert [each[:20] for each in make_release.problems(tmp_path)] == ["the tree is not clea", "v1.0 is the tag of a"]
    (tmp_path / "ees_mpi" / "version.py").write_text('__version__ = "1.1"\n')
    assert "CHANGELOG.md has no part `## 1.1`" in make_release.problems(tmp_path)[1]


def check_that_it_draws_and_prints(empty: Path) -> None:
    run(empty, "ees-mpi", "figure", "interference", *(empty / "runs").glob("*.h5"), "-o", "figure.png")
    assert (empty / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert run(empty, "ees-mpi", "docs", "format").strip()
    found = "import ees_mpi; print(ees_mpi.__file__, ees_mpi.shelf('ant-maxent-text-seed24').stat().st_size > 1e5)"
    said = run(empty, "python", "-c", found)
    assert said.startswith(str(empty)) and said.split()[1] == "True"


def check_that_its_job_scripts_are_copied_and_a_sweep_is_bash(empty: Path) -> None:
    run(empty, "ees-mpi", "jobs", "--copy", "jobs")
    assert (empty / "jobs" / "train.slurm").exists()
    listed = empty / "list"
    listed.write_text(run(empty, "ees-mpi", "sweep", "interference-maxvar", *sets(*TINY), "--out", "runs"))
    env = environment(PATH=f"{empty}/bin:{os.environ['PATH']}")
    del env["PYTHONPATH"]
    done = subprocess.run(["bash", "list"], cwd=empty, env=env, capture_output=True, text=True)
    assert done.returncode == 0 and len(list((empty / "runs").glob("*.h5"))) == 1, done.stderr
