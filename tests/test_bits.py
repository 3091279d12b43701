"""Training gives the bits that were noted in `tests/data/bits.toml`, on two kinds of CPUs."""

import sys
import tomllib
from pathlib import Path

import pytest
from support.program import TESTS, done, run

from ees_mpi import machine, open_run

NOTED = tomllib.loads((TESTS / "data" / "bits.toml").read_text())
CONFIGS = TESTS / "data" / "configs"
TRAIN_ALL = """
import sys
from support.program import done
for name in sys.argv[2:]:
    done("train", f"{sys.argv[1]}/{name}.toml", "--out", f"{name}.h5")
"""


def other(found: dict[str, str], kind: str) -> list[str]:
    """Return what is different here from the machine that computed the noted bits."""
    noted = {key: value for key, value in NOTED["packages"].items() if found[key] != "none"}  # torch, if it is not used
    packages = [f"{key} is {found[key]}, not {value}" for key, value in noted.items() if found[key] != value]
    core = "SkylakeX" if kind == "avx512" else "Haswell"
    return packages + ([] if core in found["blas"] else [f"the CPU is of another kind than {kind}: {found['blas']}"])


def check(out: Path, kind: str) -> None:
    with open_run(out) as trained:
        digest, found = trained["state_sha256"][-1].decode(), trained.machine(0)
    # Another machine may compute these bits all the same. Only if it does not, the difference is an excuse.
    if digest != NOTED[kind][out.stem]:
        reasons = other(found, kind)
        assert reasons, f"the state has the digest {digest}, not the one that was noted"
        pytest.skip(f"the bits of {out.stem} are not those that were noted, but {'; '.join(reasons)}")


@pytest.mark.slow
@pytest.mark.parametrize("name", NOTED["avx512"])
def test_training_gives_the_bits_that_were_noted(name: str, tmp_path: Path) -> None:
    done("train", CONFIGS / f"{name}.toml", "--out", tmp_path / f"{name}.h5")
    check(tmp_path / f"{name}.h5", "avx512")


@pytest.mark.slow
def test_training_gives_the_bits_that_were_noted_for_all_cpus_with_avx2(inside: Path) -> None:
    names = list(NOTED["avx2"])
    ended = run([sys.executable, "-c", TRAIN_ALL, str(CONFIGS), *names], **machine.PORTABLE)
    assert ended.returncode == 0, ended.stderr
    for name in names:
        check(inside / f"{name}.h5", "avx2")
