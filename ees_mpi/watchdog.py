"""End a command that does not react to a signal, because a library computes and does not return.

Python runs the handler of a signal when the library has returned. So a small child process watches: the interpreter
writes the number of every signal to a pipe at once, and the child kills the command if it does not react in time. The
child runs this file as its own program, so that nobody who looks for the command by its words finds the child.
"""

import contextlib
import os
import select
import signal
import sys
import time

PATIENCE = 15.0  # seconds between a signal and the end of the command, or its acknowledgement
SIGNALS = (signal.SIGINT, signal.SIGTERM)
IGNORED = (*SIGNALS, signal.SIGUSR1)  # by the child: a terminal sends Ctrl-C to both processes
ACKNOWLEDGED = 0  # is written to the pipe, like the number of a signal
_PIPES: list[int] = []  # to the child


def start(patience: float = PATIENCE) -> None:
    """Start the child process. It ends with this process."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    program = os.getpid()
    if os.fork() == 0:
        try:
            for number in IGNORED:
                signal.signal(number, signal.SIG_IGN)
            os.dup2(reading, 0)
            os.execv(sys.executable, [sys.executable, "-IS", __file__, str(program), str(patience)])
        finally:
            os._exit(0)
    os.close(reading)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    _PIPES.append(writing)


def acknowledge() -> None:
    """Tell the child that a handler has run, and that the command ends when it has saved its state."""
    for pipe in _PIPES:
        with contextlib.suppress(OSError):  # the child was killed
            os.write(pipe, bytes([ACKNOWLEDGED]))


def _watch(program: int, patience: float) -> None:
    """Wait for signals of the program until the pipe ends; kill the program if it does not react to one."""
    os.dup2(os.open(os.devnull, os.O_RDWR), 1)
    os.closerange(3, 256)
    pending, deadline = 0, 0.0
    while select.select([0], [], [], max(deadline - time.monotonic(), 0.0) if pending else None)[0]:
        numbers = os.read(0, 64)
        if not numbers:
            return  # the program has ended
        for number in numbers:
            if number in SIGNALS:
                pending, deadline = number, time.monotonic() + patience
            elif number == ACKNOWLEDGED:
                pending = 0
    if os.getppid() == program:
        name = signal.Signals(pending).name
        os.write(2, f"ees-mpi: no reaction to {name} for {patience:g} s, so the process was killed\n".encode())
        os.kill(program, signal.SIGKILL)


if __name__ == "__main__":
    _watch(int(sys.argv[1]), float(sys.argv[2]))
