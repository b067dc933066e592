"""A folder for PATH with ``pymq`` and Python, as in an environment that is active."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_PYTHON = f'"{sys.executable}"'
_PROGRAMS = {"pymq": f"{_PYTHON} -m pymq", "python": _PYTHON, "python3": _PYTHON}  # Spark starts workers with python3


def path_with_programs(folder: Path) -> str:
    """Make ``folder`` with the programs, and return the PATH that begins with it."""
    folder.mkdir()
    for name, command in _PROGRAMS.items():
        (folder / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        (folder / name).chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"
