"""Build with setuptools. The list of further files of the sdist is tools/sdist.in, not a MANIFEST.in at the top."""

from setuptools import build_meta
from setuptools.command import egg_info

egg_info.manifest_maker.template = "tools/sdist.in"

build_sdist = build_meta.build_sdist
build_wheel = build_meta.build_wheel
build_editable = build_meta.build_editable
get_requires_for_build_sdist = build_meta.get_requires_for_build_sdist
get_requires_for_build_wheel = build_meta.get_requires_for_build_wheel
get_requires_for_build_editable = build_meta.get_requires_for_build_editable
prepare_metadata_for_build_wheel = build_meta.prepare_metadata_for_build_wheel
prepare_metadata_for_build_editable = build_meta.prepare_metadata_for_build_editable
