"""The gathers between 2, 4 and 8 hosts on one machine, over a switch with latency and a limited bandwidth."""

import itertools
import json
import subprocess
import sys
import tempfile
from pathlib import Path

TOOLS = Path(__file__).parents[1]
SWITCH = str(Path(__file__).with_name("switch.py"))
LATENCIES = (50e-6, 0.5e-3, 2e-3)
BANDWIDTH = 125e6  # bytes per second: gigabit Ethernet
RANKS = 2  # of each host


def main(words: list[str]) -> None:
    """Print one line of JSON for each number of hosts and latency; `words`: the numbers of hosts, or slow."""
    sys.path.insert(0, str(TOOLS.parent / "tests"))
    if words == ["slow"]:
        print(_measured(4, "slow_node", SLOW="eesh2", SLEEP_SECONDS="0.02"))
        return
    for count, latency in itertools.product(map(int, words or ["2", "4", "8"]), LATENCIES):
        found = json.loads(_measured(count, "collectives", latency))
        print(json.dumps({"latency": latency, "bandwidth": BANDWIDTH, **found}), flush=True)


def _measured(count: int, worker: str, latency: float | None = None, **more: str) -> str:
    """Return the output of a worker on hosts; without `latency`, a bridge of the kernel connects them."""
    from support.hosts import hosts, mpirun

    with tempfile.TemporaryDirectory() as name, hosts(count, Path(name)) as names:
        switch = _switch(names, latency) if latency else None
        try:
            more |= {"PYTHONPATH": f"{TOOLS}:{TOOLS.parent}"}
            done = mpirun(names, RANKS, Path(name), TOOLS / "thousand.py", "worker", worker, **more)
        finally:
            if switch:
                switch.kill()
                switch.wait()
    if done.returncode:
        raise SystemExit(done.stderr + done.stdout)
    return done.stdout.strip()


def _switch(names: list[str], latency: float) -> subprocess.Popen[bytes]:
    from support.hosts import SWITCH as NAMESPACE

    for host in names:
        subprocess.run(["ip", "netns", "exec", host, sys.executable, SWITCH, "plain", "eth0"], check=True)
    for port in range(1, len(names) + 1):
        subprocess.run(["ip", "-n", NAMESPACE, "link", "set", f"port{port}", "nomaster"], check=True)
    words = ["ip", "netns", "exec", NAMESPACE, sys.executable, SWITCH, "forward", len(names), latency, BANDWIDTH]
    return subprocess.Popen(list(map(str, words)))
