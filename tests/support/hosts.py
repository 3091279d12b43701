"""Several hosts on one machine: network namespaces with names of their own, joined by a bridge.

The bridge has a namespace, too: an interface that comes and goes in the machine's own would break an mpirun that is
just starting there.
"""

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from support.processes import wait_until
from support.program import MPIRUN, TIMEOUT, environment

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
