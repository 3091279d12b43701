"""Training gives the bits that were noted in `tests/data/bits.toml`, on two kinds of CPUs."""

import tomllib
from pathlib import Path

import pytest
from support.program import TESTS, done

from ees_mpi import machine, open_run

NOTED = tomllib.loads((TESTS / "data" / "bits.toml").read_text())
KINDS = {"avx512": {}, "avx2": machine.PORTABLE}


def other(found: dict[str, str], kind: str) -> list[str]:
    """Return what is different here from the machine that computed the noted bits."""
    noted = {key: value for key, value in NOTED["packages"].items() if found[key] != "none"}  # torch, if it is not used
    packages = [f"{key} is {found[key]}, not {value}" for key, value in noted.items() if found[key] != value]
    core = "SkylakeX" if kind == "avx512" else "Haswell"
    return packages + ([] if core in found["blas"] else [f"the CPU is of another kind than {kind}: {found['blas']}"])


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NOTED["avx2"])
def test_training_gives_the_bits_that_were_noted(name: str, kind: str, tmp_path: Path) -> None:
    out = tmp_path / "run.h5"
    done("train", TESTS / "data" / "configs" / f"{name}.toml", "--out", out, **KINDS[kind])
    with open_run(out) as run:
        digest, found = run["state_sha256"][-1].decode(), run.machine(0)
    # Another machine may compute these bits all the same. Only if it does not, the difference is an excuse.
    if digest != NOTED[kind][name]:
        reasons = other(found, kind)
        assert reasons, f"the state has the digest {digest}, not the one that was noted"
        pytest.skip(f"the bits are not those that were noted, but {'; '.join(reasons)}")
