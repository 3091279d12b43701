"""The checks of an open run file: its order, its hashes, its noise table."""

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ees_mpi.errors import RunFileError
from ees_mpi.noise import Noise
from ees_mpi.store import chain, checks, layout
from ees_mpi.store.arrays import RunArrays
from ees_mpi.store.records import Columns
from ees_mpi.store.safety import damage_reported

CHECK_BYTES = 16 << 20  # read at a time while all hashes are checked


class RunChecks(RunArrays):
    """An open run file that can be checked."""

    run_id: str
    _version: int  # of the format
    _columns: Columns  # of a generation
    _sessions: list[dict[str, Any]]

    @cached_property
    def _checked(self) -> set[int]:
        """The generations whose hashes are right."""
        return set()

    def state_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the state after the last committed generation."""
        raise NotImplementedError

    def check_order(self) -> None:
        """Raise a RunFileError unless the rows are the generations 0, 1, 2, ... and the state follows the last one."""
        with damage_reported(self.path):
            order = self._file["generations"][layout.GENERATION][:]
            last = int(self.state_arrays()["generation"])
        whole = np.array_equal(order, np.arange(len(order)))
        if not whole or (last != self.generations and self._attributes["kind"] != "sample"):
            raise RunFileError(f"{self.path} is damaged: its rows or its state are not those of its generations")

    def check_generation(self, generation: int) -> None:
        """Raise a RunFileError if the arrays of a generation do not have the hashes that the file has for them."""
        generation = self.number_of(generation)
        if generation not in self._checked:
            row = self._rows(generation, generation + 1)[0].tobytes()
            with damage_reported(self.path):
                self._refuse([] if self._has_hash(generation, row) else [generation])
            self._checked.add(generation)

    def _rows(self, start: int, stop: int) -> NDArray[Any]:
        """Return the arrays of some generations as one structured array."""
        rows = np.empty(stop - start, self._newer.dtype)
        for name in self.names:
            rows[name] = self[name][start:stop]
        return rows

    def _has_hash(self, generation: int, data: bytes) -> bool:
        """Return True if a generation has its hash; those of the journal are checked when it is read."""
        return generation >= self._folded or chain.has_hash(
            [column[generation] for column in self._hashes], self.run_id, self._version, generation, self._columns, data
        )

    @cached_property
    def _hashes(self) -> list[NDArray[Any]]:
        return [self._file["generations"][name][:] for name in layout.HASHES[self._version]]

    def _refuse(self, damaged: list[int]) -> None:
        if damaged:
            listed = ", ".join(map(str, damaged[:8])) + ", ..." * (len(damaged) > 8)
            cure = (
                checks.REPAIR
                if self.generations - 1 in damaged
                else "`ees-mpi repair` says which generations are whole"
            )
            raise RunFileError(f"{self.path} is damaged: generation {listed} does not have the hash in it. {cure}")

    def check_last(self) -> None:
        """Check the state, the order and the last generation: all that `resume` continues from."""
        self.check_order()
        if self.generations:
            self.check_generation(self.generations - 1)
        self._check_links(self._folded - 1)

    def check_all(self) -> None:
        """Check the state, the order, the hashes of all generations, and the chain."""
        step = max(1, CHECK_BYTES // max(self._newer.dtype.itemsize, 1))
        damaged = []
        with damage_reported(self.path):
            for start in range(0, self.generations, step):
                rows = self._rows(start, min(start + step, self.generations))
                damaged += [start + g for g, row in enumerate(rows) if not self._has_hash(start + g, row.tobytes())]
            self._refuse(damaged)
        self.check_order()
        self._check_links(0)
        self._checked.update(range(self.generations))

    def _check_links(self, first: int) -> None:
        """Raise a RunFileError if a generation from `first` on does not follow the one before it."""
        with damage_reported(self.path):
            for generation, before in chain.broken_links(self._file) if self._version > 2 else ():
                if generation >= first:
                    if before >= 0:
                        self.check_generation(before)  # its damage breaks the link, too
                    raise RunFileError(
                        f"{self.path} is damaged: generation {generation} does not follow the one before"
                    )

    def check_noise(self, noise: Noise) -> None:
        """Raise a RunFileError if numpy on this machine generates other noise than the run had."""
        if noise.digest() != str(self._attributes["noise_digest"]):
            written = (self._sessions or [{"machine": {}}])[-1]["machine"].get("numpy", "an unknown version")
            raise RunFileError(
                f"{self.path}: the noise table of this machine differs from that of the run; the file was written with "
                f"numpy {written}, this is numpy {np.__version__}. Install that version to continue"
            )
