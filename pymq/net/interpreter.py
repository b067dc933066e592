"""The interpreter that a broker runs on, as the doctor judges it: some builds are slower than others."""

from __future__ import annotations

import platform
import sys
from functools import cache
from pathlib import Path
from typing import Final

# How an interpreter may be built. Its sysconfig says it wrongly on Debian.
DEBUG: Final = "debug build"
SHARED: Final = "shared library"
STATIC: Final = "static"
_MAPS = Path("/proc/self/maps")


@cache
def interpreter_text() -> str:
    """Return version and build of this interpreter: ``3.11.2, static``; without the build where it is unknown."""
    build = build_of(is_debug=hasattr(sys, "gettotalrefcount"), maps=_maps())
    return ", ".join(filter(None, (platform.python_version(), build)))


def build_of(*, is_debug: bool, maps: str | None) -> str:
    """Return the build; empty when it is unknown. ``maps``: the mapped files of the process, as Linux lists them."""
    if is_debug:
        return DEBUG
    if maps is None:
        return ""
    return SHARED if "/libpython" in maps else STATIC


def _maps() -> str | None:
    try:
        return _MAPS.read_text()
    except OSError:
        return None
