"""How the build of an interpreter is told from what its process has mapped."""

from __future__ import annotations

import platform

import pytest

from pymq.net.interpreter import build_of, interpreter_text

SHARED = "7f00-7f01 r-xp 00000000 fe:01 1 /usr/local/lib/libpython3.13.so.1.0\n"
STATIC = "5500-5501 r-xp 00000000 fe:01 1 /usr/bin/python3.11\n"


@pytest.mark.parametrize(
    ("is_debug", "maps", "build"),
    [(False, SHARED, "shared library"), (False, STATIC, "static"), (True, STATIC, "debug build"), (False, None, "")],
)
def test_the_build(is_debug: bool, maps: str | None, build: str) -> None:
    assert build_of(is_debug=is_debug, maps=maps) == build


def test_the_version_comes_first() -> None:
    version, _, build = interpreter_text().partition(", ")
    assert version == platform.python_version() and build in ("static", "shared library", "debug build", "")
