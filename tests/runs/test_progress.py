"""Progress is a bar on a terminal and in a notebook, and lines in a log file."""

import io
from collections.abc import Callable

import pytest
from support.small_runs import trained

from ees_mpi.config import Config
from ees_mpi.runs.progress import Progress


class NotebookOutput(io.StringIO):
    """The standard output of a notebook, as far as it can be told."""

    __module__ = "ipykernel.iostream"


@pytest.mark.parametrize(("stream", "bar"), [(NotebookOutput, True), (io.StringIO, False)])
def test_a_notebook_gets_a_bar_and_a_log_file_gets_lines(
    stream: type[io.StringIO], bar: bool, tiny: Callable[..., Config]
) -> None:
    config, shown = tiny(), stream()
    with Progress(config, 0, lambda: None, shown) as progress:
        trained(config, progress.update)
    assert ("6/6" in shown.getvalue()) and ("gen/s" in shown.getvalue()) is bar
    assert shown.getvalue().startswith("generation ") is not bar
