"""The fingerprint of a machine."""

import base64
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.program import done, info, train
from support.run_files import edited

from ees_mpi import machine, open_run

ALONE = """
import json, sys
from ees_mpi import machine
machine.pin_threads()
print(json.dumps(machine.fingerprint()))
assert not {"scipy", "torch"} & set(sys.modules)
"""


def test_the_fingerprint_does_not_depend_on_the_libraries_that_happen_to_be_loaded() -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("scipy.linalg")
    assert (torch.ones(2) @ torch.ones(2)).item() == 2.0
    alone = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True)
    assert alone.returncode == 0, alone.stderr
    machine._blas.cache_clear()
    assert machine.differences(json.loads(alone.stdout), machine.fingerprint()) == []


def test_differences_name_the_keys_on_which_bits_depend_and_no_others() -> None:
    mine = machine.fingerprint()
    other = {**mine, "blas": "another BLAS", "h5py": "0", "cpu": "another CPU"}
    (difference,) = machine.differences(mine, other)
    assert "blas is" in difference and "'another BLAS' there" in difference


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of packages with a stand-in for pybullet, as an installer leaves it."""
    library = tmp_path / "pybullet.so"
    library.write_bytes(b"one build")
    digest = base64.urlsafe_b64encode(hashlib.sha256(b"one build").digest()).decode().rstrip("=")
    (tmp_path / "pybullet-3.2.7.dist-info").mkdir()
    record = tmp_path / "pybullet-3.2.7.dist-info" / "RECORD"
    record.write_text(f"pybullet_data/plane.urdf,sha256=abc,9\npybullet.so,sha256={digest},9\n")
    (tmp_path / "pybullet-3.2.7.dist-info" / "METADATA").write_text("Name: pybullet\nVersion: 3.2.7\n")
    os.utime(library, ns=(0, record.stat().st_mtime_ns - 1))
    monkeypatch.delitem(sys.modules, "pybullet", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_the_digest_of_the_physics_library_comes_from_the_record_of_its_installer(site: Path) -> None:
    expected = base64.urlsafe_b64encode(hashlib.sha256(b"one build").digest()).decode()
    assert machine.fingerprint()["pybullet_build"] == expected[:12]
    record = site / "pybullet-3.2.7.dist-info" / "RECORD"
    record.write_text("pybullet.so,sha256=as-recorded-and-not-read-again,9\n")
    assert machine.fingerprint()["pybullet_build"] == "as-recorded-"
    record.unlink()  # not installed by pip: the library is read
    assert machine.fingerprint()["pybullet_build"] == expected[:12]


@pytest.mark.parametrize("build", [b"another b", b"another build"], ids=["of the same size", "of another size"])
def test_a_physics_library_that_was_built_again_in_place_has_another_digest(site: Path, build: bytes) -> None:
    before = machine.fingerprint()
    library = site / "pybullet.so"
    library.write_bytes(build)
    later = (site / "pybullet-3.2.7.dist-info" / "RECORD").stat().st_mtime_ns + 10**9
    os.utime(library, ns=(later, later))
    (difference,) = machine.differences(machine.fingerprint(), before)
    assert difference.startswith("pybullet_build is ")


def note_build(run: Path, build: str | None) -> None:
    """Change the build of pybullet that a run file names; None: the file is older, and names none."""
    with edited(run) as file:
        noted = json.loads(file["sessions/machine"][0])
        noted.pop("pybullet_build")
        if build:
            noted["pybullet_build"] = build
        file["sessions/machine"][0] = json.dumps(noted)


def test_a_resume_with_another_build_of_the_physics_library_is_noticed(tmp_path: Path) -> None:
    run = train(tmp_path / "run.h5")
    note_build(run, "another")
    said = done("resume", run, "--generations", "7").stdout
    assert "warning: something has changed since the last session" in said and "'another' there" in said
    assert said.count("pybullet_build") == 1


def test_kernels_without_a_number_are_the_first_and_cpus_have_none() -> None:
    cpu, first, second = {}, {"gpu": "A"}, {"gpu": "A", "gpu_kernels": "2"}
    assert machine.differences(second, first) == ["gpu_kernels is '2' here and '1' there"]
    assert [machine.differences(*pair) for pair in ((second, cpu), (cpu, first), (second, second))] == [[]] * 3


def test_only_files_of_the_user_that_both_sides_have_are_compared() -> None:
    """A command imports only the modules that it needs."""
    logged = {"own_code objective": "2", "own_code task": "1"}
    assert machine.differences({"own_code task": "1"}, logged) == machine.differences({}, logged) == []
    assert machine.differences({"own_code task": "3"}, logged) == ["own_code task is '3' here and '1' there"]
    assert machine.code_change({"task": "1"}, machine.own_code(logged), "then") == ""
    here, there = ({f"own_code {number}": side for number in range(5)} for side in "ab")
    said = machine.code_change(machine.own_code(here), machine.own_code(there), "then")
    assert "since then: 0 (b, now a), 1 (b, now a), 2 (b, now a) and 2 more" in said
    assert machine.differences(here, there)[2:] == ["own_code 2 is 'a' here and 'b' there", "and 2 more files of yours"]


def repository(top: Path, head: str, **files: str) -> Path:
    """Write a checkout of this package, as git would; return the folder of the package."""
    (top / "ees_mpi").mkdir(parents=True)
    (top / "pyproject.toml").write_text('[project]\nname = "ees_mpi"\n')
    for name, text in {"HEAD": head, **files}.items():
        path = top / ".git" / name.replace("__", "/").replace("_", "-")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    return top / "ees_mpi"


def test_the_commit_is_that_of_the_checkout_of_the_package_and_else_the_version(tmp_path: Path) -> None:
    one, other, branch = "1" * 40, "2" * 40, "ref: refs/heads/main"
    packed = f"# pack-refs with: peeled\n{other} refs/heads/other-main\n{one} refs/heads/main"
    detached = repository(tmp_path / "detached", one)
    assert machine.commit(detached) == one
    assert machine.commit(repository(tmp_path / "loose", branch, refs__heads__main=one)) == one
    assert machine.commit(repository(tmp_path / "packed", branch, packed_refs=packed)) == one
    worktree = repository(tmp_path / "worktree", "unused")
    shutil.rmtree(tmp_path / "worktree" / ".git")
    (tmp_path / "worktree" / ".git").write_text("gitdir: ../loose/.git/worktrees/this\n")
    (tmp_path / "loose" / ".git" / "worktrees" / "this").mkdir(parents=True)
    for name, text in {"HEAD": branch, "commondir": "../.."}.items():
        (tmp_path / "loose" / ".git" / "worktrees" / "this" / name).write_text(text)
    assert machine.commit(worktree) == one
    (tmp_path / "detached" / "pyproject.toml").write_text('[project]\nname = "another"\n')  # installed with --target
    inside = tmp_path / "packed" / "site-packages" / "ees_mpi"
    for package in (detached, inside, repository(tmp_path / "new", branch), repository(tmp_path / "odd", "ref: x\n\0")):
        assert machine.commit(package) == machine.__version__
    shutil.rmtree(tmp_path / "loose" / ".git")
    assert machine.commit(worktree) == machine.__version__


def test_every_session_notes_the_commit_and_info_shows_it(finished: Path) -> None:
    with open_run(finished) as run:
        assert [session["machine"]["commit"] for session in run.sessions()] == [machine.commit()]
    assert info(finished)["commit"] == machine.commit()
