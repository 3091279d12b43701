"""Build with setuptools. The list of further files of the sdist is tools/sdist.in, not a MANIFEST.in at the top."""

from typing import Any

from setuptools import build_meta
from setuptools.command import egg_info

egg_info.manifest_maker.template = "tools/sdist.in"

build_sdist = build_meta.build_sdist
build_wheel = build_meta.build_wheel
get_requires_for_build_sdist = build_meta.get_requires_for_build_sdist
get_requires_for_build_wheel = build_meta.get_requires_for_build_wheel
get_requires_for_build_editable = build_meta.get_requires_for_build_editable
prepare_metadata_for_build_wheel = build_meta.prepare_metadata_for_build_wheel
prepare_metadata_for_build_editable = build_meta.prepare_metadata_for_build_editable


def build_editable(folder: str, settings: dict[str, Any] | None = None, metadata: str | None = None) -> str:
    """Put the checkout on Python's path; setuptools' own finder comes too late for a script beside the checkout.

    There, Python would take the folder of the checkout, which has the name of the package, for an empty package.
    """
    return build_meta.build_editable(folder, {"editable_mode": "compat", **(settings or {})}, metadata)
