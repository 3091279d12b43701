"""Lets MuJoCo draw without a screen, and reports a machine that cannot draw."""

import ctypes.util
import importlib
import os
import re
import sys
from collections.abc import Callable
from typing import TypeVar

from ees_mpi.errors import MissingExtra

Drawn = TypeVar("Drawn")
HINT = "without a screen, MuJoCo needs a library (Debian: libegl1 or libosmesa6)"


def draw_without_a_screen() -> None:
    """Set MUJOCO_GL to a renderer that needs no screen, if the machine has one and the user has not set it."""
    if {"DISPLAY", "MUJOCO_GL"} & os.environ.keys():
        return
    renderers = [name for library, name in (("EGL", "egl"), ("OSMesa", "osmesa")) if ctypes.util.find_library(library)]
    if renderers:
        os.environ["MUJOCO_GL"] = renderers[0]
        for name in [name for name in sys.modules if re.fullmatch(r"mujoco\..*gl_context", name)]:
            importlib.reload(sys.modules[name])  # they read the variable when they are imported


def drawn(draw: Callable[[], Drawn], problem: str) -> Drawn:
    """Return the result of `draw`; raise MissingExtra if it fails. `problem`: what cannot be drawn."""
    try:
        return draw()
    except Exception as error:  # renderers raise many kinds of errors without a screen, a library or a driver
        failure = f"{type(error).__name__}: {error}"
    # Outside of the handler: an incomplete renderer raises another error when it is deleted.
    raise cannot_draw(problem, failure)


def cannot_draw(problem: str, reason: str) -> MissingExtra:
    """Return the error of a machine that cannot draw."""
    return MissingExtra(f"{problem} on this machine ({' '.join(reason.split())}); {HINT}")
