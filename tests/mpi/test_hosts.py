"""Several nodes: one noise table each, the same bits as one rank, and ranks of other hosts that die or hang.

The hosts are network namespaces with names of their own, joined by a bridge. The bridge has a namespace, too: an
interface that comes and goes in the machine's own would break an mpirun that is just starting there.
"""

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest
from support.breaking import breaking
from support.processes import wait_until
from support.program import CHECKOUT, MPIRUN, TESTS, TIMEOUT, ees, environment, info, sets
from support.run_files import assert_same_bits

SELF_KILL = CHECKOUT / "tools" / "chaos_parts" / "self_kill.py"
PROGRAMS = TESTS / "support" / "rank_programs.py"
SMALL = ("population.size=12", "task.steps=20", "noise.size=300000", "run.generations=3", "task.observation_share=0.5")
SETS = sets(*SMALL, "run.stall_minutes=2")  # ranks that wait in vain for a dead one end before mpirun's patience does
SWITCH = "eesswitch"  # the namespace of the bridge
BRIDGE = "eesbr"
PATIENCE = 300  # seconds that an mpirun may take
TOOLS = ("ip", "unshare", "nsenter", "mount")


def why_not() -> str:
    """Say what keeps this machine from having such hosts; nothing where it can."""
    if os.getuid() != 0:
        return "needs root to make network namespaces"
    missing = [tool for tool in TOOLS if not shutil.which(tool)]
    if missing:
        return f"needs {', '.join(missing)} (Debian: iproute2, util-linux)"
    probe = f"eesprobe{os.getpid()}"  # tests may run side by side
    done = subprocess.run(["ip", "netns", "add", probe], capture_output=True, text=True)
    if done.returncode:
        return f"network namespaces cannot be made here: {done.stderr.strip()}"
    pair = ["ip", "-n", probe, "link", "add", "one", "type", "veth", "peer", "name", "other"]
    done = subprocess.run(pair, capture_output=True, text=True)
    subprocess.run(["ip", "netns", "del", probe], capture_output=True)
    return f"veth pairs cannot be made here: {done.stderr.strip()}" if done.returncode else ""


@contextmanager
def hosts(count: int, folder: Path) -> Iterator[list[str]]:
    """Make hosts eesh1, eesh2, ... and remove them again."""
    names = [f"eesh{number}" for number in range(1, count + 1)]
    turn = (Path(tempfile.gettempdir()) / "ees-hosts.lock").open("w")
    wait_until(lambda: _is_free(turn))  # the names are the machine's: one set of hosts at a time
    try:
        _ip("netns", "add", SWITCH)
        _ip("-n", SWITCH, "link", "add", BRIDGE, "type", "bridge")
        _ip("-n", SWITCH, "link", "set", BRIDGE, "up")
        for number, name in enumerate(names, start=1):
            _ip("netns", "add", name)
            _ip("-n", SWITCH, "link", "add", f"port{number}", "type", "veth", "peer", "name", "eth0", "netns", name)
            _ip("-n", SWITCH, "link", "set", f"port{number}", "master", BRIDGE, "up")
            _ip("-n", name, "addr", "add", f"10.77.1.{number}/24", "dev", "eth0")
            _ip("-n", name, "link", "set", "lo", "up")
            _ip("-n", name, "link", "set", "eth0", "up")
        lines = [f"10.77.1.{number} {name}" for number, name in enumerate(names, start=1)]
        (folder / "hosts").write_text("127.0.0.1 localhost\n" + "\n".join(lines) + "\n")
        agent = folder / "agent"
        agent.write_text('#!/bin/bash\nwhile [[ "$1" == -* ]]; do shift; done\nh=$1; shift\n' + _enter("$h", '"$*"'))
        agent.chmod(0o755)
        yield names
    finally:
        for name in (*names, SWITCH):
            subprocess.run(["ip", "netns", "del", name], capture_output=True)
        turn.close()


def _is_free(turn: IO[str]) -> bool:
    """Return whether this process has the lock now."""
    try:
        fcntl.flock(turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _enter(host: str, command: str) -> str:
    named = f'"hostname {host}; exec /bin/sh -c \\"\\$0\\""'
    return f"exec nsenter --net=/run/netns/{host} unshare --uts /bin/sh -c {named} {command}\n"


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


def mpirun(
    names: list[str], each: int, folder: Path, *words: object, options: Sequence[str] = (), **more: str
) -> subprocess.CompletedProcess[str]:
    """Run a program with some ranks on each host, started from the first one; `more`: environment variables."""
    slots = ",".join(f"{name}:{each}" for name in names)
    launcher = [MPIRUN, "--prtemca", "plm_ssh_agent", str(folder / "agent"), "--host", slots, *options]
    line = " ".join([*launcher, "--bind-to", "none", sys.executable, *map(str, words)])
    start = folder / "start"
    start.write_text("#!/bin/bash\n" + f"mount --bind {folder}/hosts /etc/hosts\n" + _enter(names[0], f"'{line}'"))
    start.chmod(0o755)
    # A launcher that waits in vain, for a host or for ranks, ends itself, and all processes on all hosts.
    env = environment(OMPI_MCA_mpi_yield_when_idle="1", MPIEXEC_TIMEOUT=str(PATIENCE), **more)
    return subprocess.run(["unshare", "--mount", start], capture_output=True, text=True, timeout=TIMEOUT, env=env)


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> object:
    reason = why_not()
    if reason:
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("hosts")
    with hosts(3, folder) as names:
        yield names, folder


@pytest.mark.slow
def test_each_host_holds_one_noise_table_and_gathers_cross_hosts_in_order(three: tuple[list[str], Path]) -> None:
    names, folder = three
    programs = (PROGRAMS, "one_table_per_node", "gathers")
    done = mpirun(names, 2, folder, *programs, options=["--map-by", "node"])  # hosts in turn
    assert done.returncode == 0 and done.stdout.splitlines() == ["3 nodes of 2 ranks, 3 tables", "ok"], done.stderr


@pytest.mark.slow
def test_three_hosts_of_two_ranks_give_the_bits_of_one_rank_also_after_a_rank_of_the_last_host_died(
    three: tuple[list[str], Path], tmp_path: Path
) -> None:
    names, folder = three
    out, alone = tmp_path / "three.h5", tmp_path / "alone.h5"
    assert ees("train", "ant-maxent", *SETS, "--out", alone).returncode == 0
    words = ["train", "ant-maxent", *SETS, "--out", out, "--resume"]
    plan = json.dumps([{"rank": 4, "where": "a rollout", "after": 3}])  # a rank of the last host
    killed = mpirun(names, 2, folder, SELF_KILL, *words, EES_CHAOS=plan)
    assert killed.returncode != 0, killed.stdout
    done = mpirun(names, 2, folder, "-m", "ees_mpi", *words)
    assert done.returncode == 0, done.stderr
    assert_same_bits(out, alone)
    assert (info(out)["ranks"], info(out)["nodes"]) == (6, 3)


@pytest.mark.slow
def test_the_doctor_looks_at_every_host(three: tuple[list[str], Path]) -> None:
    names, folder = three
    done = mpirun(names, 1, folder, "-m", "ees_mpi", "doctor", "interference-maxent")
    assert done.returncode == 0, done.stderr
    assert "3 ranks on 3 nodes, 1 on this one" in done.stdout
    for subject in ("cores", "memory", "shared memory", "file system", "file locks"):
        (line,) = (line for line in done.stdout.splitlines() if line[6:].startswith(f"{subject}  "))
        assert line.startswith("ok ") and "on all 3 nodes" in line, line


@pytest.mark.slow(long=True)
def test_the_only_rank_of_a_host_hangs_and_its_stack_is_shown(three: tuple[list[str], Path], tmp_path: Path) -> None:
    names, folder = three
    settings = ("task.settings.how=hang", "task.settings.at=15", "task.settings.seconds=0.02")
    words = breaking(tmp_path / "run.h5", 0, *settings, "run.stall_minutes=0.1")
    done = mpirun(names[:2], 1, folder, *words)
    assert done.returncode not in (0, 2, 3, 75)
    assert done.stderr.count("Timeout (") == 1 and "breaking.py" in done.stderr, done.stderr
