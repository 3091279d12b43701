"""Check that a commit can be released, and make its files in dist/; `tools/release` calls it. Nothing is uploaded.

All files are made from the commit, not from the working tree, so that nothing stray gets into them. What only the
owners know is in tools/owners.toml, and is written into the tree that is built.
"""

import argparse
import hashlib
import io
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

import owners

CHECKOUT = Path(__file__).parents[1]
APART = ("jobs/paper/results/", "jobs/paper/pictures/")  # not in the sdist
SMALL_FILES = "8fa8da2"  # the last commit that has the small files of each run; later ones are not in git
MAPPED = "ees_mpi/jobs/"  # in the wheel the folder jobs/ of checkout and sdist
SIZES = {"wheel": 5e6, "sdist": 5e6, "file": 3e5}  # the largest allowed, in bytes


def git(root: Path, *words: str) -> str:
    """Return what a command of git prints."""
    return subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=True).stdout


def version_of(root: Path) -> str:
    """Return the version, which is in one place only."""
    found = re.search(r'__version__ = "([^"]+)"', (root / "ees_mpi" / "version.py").read_text(encoding="utf-8"))
    if not found:
        raise SystemExit('release: expected a line __version__ = "..." in ees_mpi/version.py')
    return found[1]


def problems(root: Path) -> list[str]:
    """Return the reasons for which the commit must not be released; what the owners fill in is not among them."""
    found, version = [], version_of(root)
    if changed := git(root, "status", "--porcelain").splitlines():
        found.append(f"the tree is not clean, commit or remove: {', '.join(line[3:] for line in changed[:5])}")
    changelog = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    if not re.search(rf"^## {re.escape(version)}\b", changelog, re.MULTILINE):
        found.append(f"CHANGELOG.md has no part `## {version}`; write it, or change ees_mpi/version.py")
    tagged = git(root, "tag", "--list", f"v{version}") and git(root, "rev-parse", f"v{version}^{{commit}}")
    if tagged and tagged != git(root, "rev-parse", "HEAD"):
        found.append(f"v{version} is the tag of another commit; change ees_mpi/version.py")
    return found


def names_in(archive: Path) -> dict[str, int]:
    """Return the size of each file of a wheel or an sdist, by its path; without the first folder of an sdist."""
    if archive.suffix == ".whl":
        return {each.filename: each.file_size for each in zipfile.ZipFile(archive).infolist()}
    with tarfile.open(archive) as members:
        return {each.name.partition("/")[2]: each.size for each in members if each.isfile()}


def in_wheel(name: str) -> bool:
    """Return whether a file of the commit belongs into the wheel: the package, the job scripts and the examples."""
    return name.startswith(("ees_mpi/", "jobs/examples/")) or bool(re.fullmatch(r"jobs/[^/]+", name))


def stray(archive: Path, sources: set[str]) -> list[str]:
    """Return everything that is wrong with the contents of a wheel or an sdist; `sources`: the files of the commit."""
    wheel, wrong = archive.suffix == ".whl", []
    found = {name.replace(MAPPED, "jobs/", 1) if wheel else name: size for name, size in names_in(archive).items()}
    for name, size in found.items():
        made = re.match(r"[\w.-]+\.dist-info/" if wheel else r"PKG-INFO$|setup\.cfg$|ees_mpi\.egg-info/", name)
        outside = (wheel and not in_wheel(name)) or name.startswith(APART)
        if not made and (outside or name not in sources):
            wrong.append(f"{name} should not be in it")
        if size > SIZES["file"]:
            wrong.append(f"{name} has {size / 1e6:.1f} MB")
    wanted = {name for name in sources if not name.startswith((".", *APART)) and (not wheel or in_wheel(name))}
    wrong += [f"{name} is not in it" for name in sorted(wanted - set(found))]
    if archive.stat().st_size > SIZES["wheel" if wheel else "sdist"]:
        wrong.append(f"it has {archive.stat().st_size / 1e6:.1f} MB")
    return [f"{archive.name}: {each}" for each in wrong]


def files_in(folder: Path) -> dict[str, bytes]:
    """Return all files below a folder, by their path in it."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def archive_results(source: Path, small: Sequence[Path], out: Path, when: int) -> None:
    """Pack the results of a tree and folders of small files, with checksums; the same files give the same bytes."""
    files = {f"results/{path}": data for path, data in files_in(source / "jobs/paper/results").items()}
    files |= {f"small_files/{path}": data for folder in small for path, data in files_in(folder).items()}
    files["SHA256SUMS"] = sums(files).encode()
    with tarfile.open(out, "w:xz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(f"{out.name.removesuffix('.tar.xz')}/{name}")
            member.size, member.mtime = len(content), when
            archive.addfile(member, io.BytesIO(content))


def sums(files: dict[str, bytes]) -> str:
    """Return lines that `sha256sum --check` reads."""
    return "".join(f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in files.items())


def extract(root: Path, commit: str, folder: Path, *paths: str) -> Path:
    """Write the files of a commit into a folder."""
    done = subprocess.run(["git", "archive", commit, *paths], cwd=root, capture_output=True)
    if done.returncode:
        raise SystemExit(f"release: {commit} is not in this clone; fetch the whole history: git fetch --unshallow")
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["tar", "-x", "-C", str(folder)], input=done.stdout, check=True)
    return folder


def make(root: Path, out: Path, small: Sequence[Path] = ()) -> list[Path]:
    """Make the files of a release from the last commit, with newer small files; exit if their contents are wrong."""
    version, when = version_of(root), int(git(root, "log", "-1", "--format=%ct"))
    results = out / f"ees_mpi-{version}-results.tar.xz"
    with tempfile.TemporaryDirectory() as folder:
        tree = extract(root, "HEAD", Path(folder, "tree"))
        owners.fill(tree, version)
        before = extract(root, SMALL_FILES, Path(folder, "before"), "jobs/paper/results") / "jobs/paper/results"
        words = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(tree)]
        done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "SOURCE_DATE_EPOCH": str(when)})
        if done.returncode:
            raise SystemExit(f"release: the build failed\n{done.stdout}{done.stderr}")
        archive_results(tree, [before, *small], results, when)
    made = [out / f"ees_mpi-{version}-py3-none-any.whl", out / f"ees_mpi-{version}.tar.gz"]
    sources = set(git(root, "ls-files").splitlines())
    if wrong := [each for archive in made for each in stray(archive, sources)]:
        raise SystemExit("release: wrong contents:\n" + "\n".join(wrong))
    if subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *map(str, made)]).returncode:
        raise SystemExit("release: twine refuses the metadata, see above")
    (out / "SHA256SUMS").write_text(sums({path.name: path.read_bytes() for path in (*made, results)}))
    return [*made, results, out / "SHA256SUMS"]


def main() -> None:
    """Check, list what the owners have not filled in, and make the files."""
    parser = argparse.ArgumentParser(prog="tools/release", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--draft", action="store_true", help="make the files with what the owners have filled in")
    parser.add_argument("--small", nargs="*", type=Path, default=[], help="folders of small files of later runs")
    told = parser.parse_args()
    if left := owners.empty(CHECKOUT):
        print("Not filled in:", *left, sep="\n  ")
    if found := problems(CHECKOUT):
        raise SystemExit("\n".join(f"release: {each}" for each in found))
    if left and not told.draft:
        raise SystemExit("release: refused: fill them in, or give --draft")
    (CHECKOUT / "dist").mkdir(exist_ok=True)
    for path in make(CHECKOUT, CHECKOUT / "dist", told.small):
        print(f"{path.stat().st_size / 1e6:8.2f} MB  dist/{path.name}")


if __name__ == "__main__":
    main()
