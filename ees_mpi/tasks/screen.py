"""Lets MuJoCo draw without a screen."""

import ctypes.util
import importlib
import os
import re
import sys

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
