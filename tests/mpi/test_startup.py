"""Starting: a rank opens few files, because a shared file system is slow to open many."""

from pathlib import Path

from support.program import BIN, CHECKOUT, MPIRUN, python, run, sets

RECORD_START = CHECKOUT / "tools" / "bench_parts" / "record_start.py"
FILES = 500  # at most, by the first rollout: Python's own, numpy's, h5py's, MPI's and ours


def test_a_rank_opens_fewer_than_500_files_before_its_first_rollout(tmp_path: Path) -> None:
    settings = sets("run.generations=1", "population.size=4", "noise.size=300000", "task.steps=2")
    words = ["train", "cheetah-maxent", *settings, "--out", tmp_path / "run.h5", "--overwrite"]
    # The first run compiles every module, as an installation does; otherwise sources would be opened as well.
    for folder in ("compiled", "started"):
        (tmp_path / folder).mkdir()
        more = {"EES_STARTED": str(tmp_path / folder), "PYTHONPYCACHEPREFIX": str(tmp_path / "cache")}
        done = run(python(RECORD_START, *words, ranks=2), **more)
        assert done.returncode == 0, done.stderr
    counts = [
        int(path.read_text().partition('"files": ')[2].rstrip("}")) for path in (tmp_path / "started").glob("*.json")
    ]
    assert len(counts) == 2 and 200 < max(counts) < FILES


def test_a_rank_that_dies_before_mpi_has_started_ends_the_job_within_the_limit() -> None:
    dies = f'[ "$OMPI_COMM_WORLD_RANK" = 1 ] && kill -9 $$; exec {BIN}/ees-mpi doctor --start-minutes 0.05'
    ended = run([MPIRUN, "--with-ft", "ulfm", "-n", "3", "/bin/sh", "-c", dies])
    assert ended.returncode != 0
    assert ended.stderr.count("MPI did not start within 0.05 minutes (--start-minutes)") == 1, ended.stderr
