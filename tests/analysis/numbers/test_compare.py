"""`ees-mpi compare` on run files whose answer is known, and on files that cannot be compared."""

import gzip
import json
import re
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest
import scipy.stats
from support.program import TESTS, ees, refused
from support.small_runs import Zoo, seeds, walk

pytestmark = pytest.mark.usefixtures("there")
GENERATOR = np.random.default_rng(7)
FAR = [GENERATOR.normal(40, 5, (8, 1)) for _ in range(6)]
NEAR = [GENERATOR.normal(0, 5, (8, 1)) for _ in range(5)]


def compared(*arguments: object) -> dict:
    """What `compare --json` says of one metric."""
    said = ees("compare", *arguments, "--json")
    assert said.returncode == 0, said.stderr
    (found,) = json.loads(said.stdout)
    return found


@pytest.fixture(scope="module")
def cheetah(zoo: Zoo, folder: Path) -> Path:
    """A run in a folder of its own: its adaptations are written and searched beside it."""
    return Path(shutil.copy(zoo["cheetah"], folder / "cheetah.h5"))


@pytest.fixture(scope="module")
def sets(folder: Path, cheetah: Path) -> dict[str, list[Path]]:
    """Runs of MaxEnt that go far, and of MaxVar and standard ES that do not."""

    def objective(name: str) -> object:
        settings = re.compile(r'name = "maxent"(\n(bandwidth|normalization) = .*)+')
        return lambda text: settings.sub(f'name = "{name}"', text)

    return {
        "maxent": seeds(folder, cheetah, "maxent", FAR),
        "maxvar": seeds(folder, cheetah, "maxvar", NEAR[:3], objective("maxvar")),
        "es": seeds(folder, cheetah, "es", NEAR, objective("fitness")),
    }


def test_the_numbers_are_those_of_the_behaviors_and_the_test_is_scipys(sets: dict[str, list[Path]]) -> None:
    found = compared("--metric", "distance_mean", *sets["maxent"], "--against", *sets["es"])
    far, near = [[np.abs(x).mean() for x in group] for group in (FAR, NEAR)]
    first, second = found["groups"]
    assert (first["label"], second["label"]) == ("MaxEnt-EES", "standard ES")
    assert list(first["values"].values()) == pytest.approx(far)
    assert first["median"] == pytest.approx(np.median(far)) and second["runs"] == 5
    (test,) = found["tests"]
    reference = scipy.stats.mannwhitneyu(far, near, method="exact")
    assert (test["u"], test["p"]) == (reference.statistic, reference.pvalue) and test["effect"] == 1
    assert found["notes"] == []


def test_kinds_of_runs_in_one_set_are_told_apart_and_tested_against_each_other(sets: dict[str, list[Path]]) -> None:
    files = ["--metric", "distance_mean", *sets["maxent"][:2], *sets["maxvar"][:2], "--against", *sets["es"][:2]]
    tests = [(test["first"], test["second"]) for test in compared(*files)["tests"]]
    assert tests == [("MaxEnt-EES", "standard ES"), ("MaxVar-EES", "standard ES"), ("MaxEnt-EES", "MaxVar-EES")]
    table = ees("compare", *files).stdout
    assert "p (Holm)" in table and "MaxEnt-EES against MaxVar-EES" in table and "an interval needs 6 runs" in table


def test_other_tasks_are_noted_once_and_unlike_generations_and_sizes_refused(cheetah: Path, folder: Path) -> None:
    longer = walk(folder / "longer.h5", "cheetah-maxent", "run.generations=4", "population.size=10", "task.steps=7")
    code, line = refused("compare", "--metric", "distance_mean", cheetah, "--against", longer)
    assert code == 3 and "different generations, 2 to 3" in line and "--generation 2" in line
    words = (cheetah, "--against", longer, "--generation", 1)
    (other,) = compared("--metric", "distance_mean", *words)["notes"]
    assert "differ in task.steps" in other
    code, line = refused("compare", "--metric", "coverage", *words)
    assert code == 3 and "8 to 10 individuals" in line


def test_fitnesses_after_some_generations_are_compared_in_one_direction_only(zoo: Zoo) -> None:
    random, seeded = zoo["random"], zoo["seeded"]
    found = compared("--metric", "fitness_mean", "--generation", 2, seeded, "--against", random)
    assert [group["label"] for group in found["groups"]] == ["standard ES from MaxEnt-EES", "standard ES"]
    with h5py.File(seeded) as file:
        assert found["groups"][0]["median"] == np.nanmean(file["generations/fitness"][2])
    code, line = refused("compare", "--metric", "fitness_mean", seeded, "--against", zoo["backwards"])
    assert code == 3 and "different directions" in line


def test_the_files_of_adapt_and_sample_can_be_compared(folder: Path, cheetah: Path) -> None:
    other = walk(folder / "other.h5", "cheetah-maxvar", "run.seed=5")
    for run in (cheetah, other):
        for direction in ("left", "right"):
            words = ["adapt", run, "--direction", direction, "--mutations", 3, "--evaluations", 2]
            assert ees(*words).returncode == 0
    files = [folder / f"{name}-adapt-{way}.h5" for name in ("cheetah", "other") for way in ("left", "right")]
    found = compared("--metric", "adaptation", cheetah, *files[:2], "--against", *files[2:])
    assert [group["label"] for group in found["groups"]] == ["MaxEnt-EES", "MaxVar-EES"]
    scores = []
    for direction in ("left", "right"):
        with h5py.File(folder / f"cheetah-adapt-{direction}.h5") as file:
            scores.append(file["evaluations/fitness"][:].mean())
    assert found["groups"][0]["median"] == pytest.approx(np.mean(scores))
    code, line = refused("compare", "--metric", "adaptation", *files[:2], "--against", other)
    assert code == 3 and "is no file of ees-mpi adapt" in line
    code, line = refused("compare", "--metric", "adaptation", *files[:2], "--against", files[2])
    assert code == 3 and "not adapted in direction right" in line
    assert ees("sample", cheetah, "--count", 4).returncode == 0
    sample = folder / "cheetah-sample.h5"
    assert compared("--metric", "distance_mean", sample, "--against", other)["groups"][0]["label"] == "MaxEnt-EES"
    code, line = refused("compare", "--metric", "distance_mean", sample, cheetah, "--against", other)
    assert code == 2 and "same run" in line


def test_a_group_whose_runs_differ_in_more_than_the_seed_is_noted(zoo: Zoo) -> None:
    (note,) = compared("--metric", "entropy", zoo["cheetah"], zoo["narrow"], "--against", zoo["cheetah1"])["notes"]
    assert "MaxEnt-EES (first set)" in note and note.endswith("they differ in population.std")


def test_policies_that_are_the_best_of_unequally_many_mutations_are_noted(folder: Path, cheetah: Path) -> None:
    other = walk(folder / "many.h5", "cheetah-maxvar", "run.seed=8")
    for run, mutations in ((cheetah, 3), (other, 4)):
        words = ("--mutations", mutations, "--evaluations", 1, "-o", f"{run.stem}-best.h5")
        assert ees("adapt", run, "--direction", "left", *words).returncode == 0
    (note,) = compared("--metric", "adaptation", f"{cheetah.stem}-best.h5", "--against", "many-best.h5")["notes"]
    assert "best of 3 mutations, chosen from one start (MaxEnt-EES); best of 4 mutations" in note


def test_unequally_many_valid_individuals_are_noted_beside_a_coverage(folder: Path, cheetah: Path) -> None:
    place = np.random.default_rng(0).normal(size=(8, 1))
    less = np.where(np.arange(8)[:, None] == 3, np.nan, place)
    one, other = seeds(folder, cheetah, "valid", [place, less])
    assert "7 to 8 valid individuals" in compared("--metric", "coverage", one, "--against", other)["notes"][-1]
    assert compared("--metric", "distance_mean", one, "--against", other)["notes"] == []


def test_samples_after_different_generations_are_noted(folder: Path, cheetah: Path) -> None:
    other = walk(folder / "early.h5", "cheetah-maxent", "run.seed=7")
    for run, generation in ((cheetah, 3), (other, 1)):
        words = ("--generation", generation, "--count", 4, "-o", f"{run.stem}-after.h5")
        assert ees("sample", run, *words).returncode == 0
    files = (f"{cheetah.stem}-after.h5", "--against", f"{other.stem}-after.h5")
    (note,) = compared("--metric", "distance_mean", *files)["notes"]
    assert "MaxEnt-EES were trained for 1 to 3 generations" in note


@pytest.mark.usefixtures("quick_figures")
def test_mutations_of_different_stds_are_noted(folder: Path, cheetah: Path) -> None:
    other = walk(folder / "another.h5", "cheetah-maxvar", "run.seed=6")
    for run, stds in ((cheetah, "0.1,0.2"), (other, "0.1")):
        assert ees("measure", run, "--std", stds, "--count", 4, "-o", f"{run.stem}-measured.h5").returncode == 0
    words = ("--metric", "distance_mean", f"{cheetah.stem}-measured.h5", "--against", f"{other.stem}-measured.h5")
    (note,) = compared(*words)["notes"]
    assert "different stds, 0.1, 0.2; --generation N" in note
    assert compared(*words, "--generation", 0)["notes"] == []


def test_different_tasks_and_cells_of_different_sizes_are_refused(folder: Path) -> None:
    runs = []
    for word, std in (("Waves", 0.5), ("Drawn", 0.01)):
        own = "task.name=custom", f"task.function=support.own_tasks:{word}", f"population.std={std}"
        runs.append(walk(folder / f"{word}.h5", "interference-maxent", *own))
    for words in (("compare", "--metric", "coverage", runs[0], "--against", runs[1]), ("report", *runs)):
        code, line = refused(*words)
        assert code == 3 and "are of different tasks: task.function is 'support.own_tasks:Waves' and" in line
    code, line = refused("figure", "sweep", "--by", "task.function", "--metric", "coverage", *runs, "-o", "no.png")
    assert code == 3 and "draw each task by itself, or give --cell X" in line


def test_maml_is_compared_by_its_adaptations_and_by_mutations_of_its_mean(folder: Path, cheetah: Path) -> None:
    pytest.importorskip("torch")
    maml = folder / "maml.h5"
    maml.write_bytes(gzip.decompress((TESTS / "data" / "format5" / "maml.h5.gz").read_bytes()))
    for command in (["adapt", maml, "--direction", "left"], ["sample", maml, "--count", 4]):
        assert ees(*command).returncode == 0
    assert ees("adapt", cheetah, "--direction", "left", "--mutations", 2, "--out", "only-left.h5").returncode == 0
    found = compared("--metric", "adaptation", "only-left.h5", "--against", folder / "maml-adapt-left.h5")
    assert [group["label"] for group in found["groups"]] == ["MaxEnt-EES", "MAML"]
    found = compared("--metric", "distance_mean", cheetah, "--against", folder / "maml-sample.h5")
    assert [group["label"] for group in found["groups"]] == ["MaxEnt-EES", "MAML"]
    code, line = refused("compare", "--metric", "distance_mean", cheetah, "--against", maml)
    assert code == 3 and "rows are tasks, not mutations" in line and f"ees-mpi sample {maml}" in line
    said = ees("figure", "maml", cheetah, folder / "maml-sample.h5", "-o", "maml.svg")
    assert said.returncode == 0


def test_the_values_of_a_key_are_compared_with_each_other(sets: dict[str, list[Path]]) -> None:
    runs = [path for name in ("maxent", "es", "maxvar") for path in sets[name]]
    found = compared("--metric", "distance_mean", "--by", "objective.name", *runs)
    groups = [(group["label"].removeprefix("objective.name = "), group["runs"]) for group in found["groups"]]
    assert groups == [("fitness", 5), ("maxent", 6), ("maxvar", 3)]
    tests = {(test["first"].split()[-1], test["second"].split()[-1]): test for test in found["tests"]}
    assert list(tests) == [("fitness", "maxent"), ("fitness", "maxvar"), ("maxent", "maxvar")]
    known = compared("--metric", "distance_mean", *sets["es"], "--against", *sets["maxent"])["tests"][0]
    assert tests["fitness", "maxent"]["p"] == known["p"] and tests["fitness", "maxent"]["u"] == known["u"]
    assert any("objective.bandwidth" in note for note in found["notes"])  # the other key in which they differ
