"""Robots in MuJoCo: on the CPU with MuJoCo itself, on a GPU with MuJoCo Warp and torch."""
