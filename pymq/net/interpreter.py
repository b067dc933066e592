"""The interpreter of a server, as the doctor judges it: some builds of Python are slower than others."""

from __future__ import annotations

import platform
import sys
import sysconfig
from functools import cache
from typing import Final

DEBUG: Final = "debug build"
OPTIMIZED: Final = "LTO"  # optimized when it was linked
PLAIN: Final = "no LTO"
_SYSTEM_PREFIX = "/usr"


@cache
def interpreter_text() -> str:
    """Return version and build of this interpreter: ``3.13.0, LTO``; without the build where it is unknown."""
    arguments = sysconfig.get_config_var("CONFIG_ARGS")
    build = build_of(arguments=str(arguments or ""), prefix=sys.base_prefix, is_debug=hasattr(sys, "gettotalrefcount"))
    return ", ".join(filter(None, (platform.python_version(), build)))


def build_of(*, arguments: str, prefix: str, is_debug: bool) -> str:
    """Return the build; empty when it is unknown. ``arguments``: those that it was configured with.

    Distributions give the linker's options elsewhere, so nothing is said of theirs. Debian's has LTO.
    """
    if is_debug:
        return DEBUG
    if "--with-lto" in arguments:
        return OPTIMIZED
    return PLAIN if arguments and prefix != _SYSTEM_PREFIX else ""
