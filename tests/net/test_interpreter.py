"""How the build of an interpreter is told from what it was configured with."""

from __future__ import annotations

import platform

import pytest

from pymq.net.interpreter import build_of, interpreter_text

LTO = "'--enable-optimizations' '--with-lto' '--enable-shared'"
OWN = "'--prefix=/opt/python' '--enable-optimizations'"


@pytest.mark.parametrize(
    ("arguments", "prefix", "is_debug", "build"),
    [
        (LTO, "/usr/local", False, "LTO"),
        (OWN, "/opt/python", False, "no LTO"),
        (OWN, "/usr", False, ""),
        ("", "/opt/python", False, ""),
        (LTO, "/usr/local", True, "debug build"),
    ],
)
def test_the_build(arguments: str, prefix: str, is_debug: bool, build: str) -> None:
    assert build_of(arguments=arguments, prefix=prefix, is_debug=is_debug) == build


def test_the_version_comes_first() -> None:
    version, _, build = interpreter_text().partition(", ")
    assert version == platform.python_version() and build in ("LTO", "no LTO", "debug build", "")
