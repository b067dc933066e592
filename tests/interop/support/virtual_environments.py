"""Virtual environments in the cache, each with one foreign Python client: their top-level names are equal."""

from __future__ import annotations

import sys
import venv
from pathlib import Path

from tests.interop.support.tools import cache_directory, fills_cache, run_setup


@fills_cache
def python_with(name: str, requirement: str) -> Path:
    """Return the Python of the environment `name`, which can import the package of `requirement`."""
    home = cache_directory() / name / f"{requirement}-py{sys.version_info.major}.{sys.version_info.minor}"
    python = home / "bin" / "python"
    if not (home / "complete").exists():
        venv.create(home, clear=True, with_pip=True)
        command = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", requirement]
        run_setup(f"installing {requirement}", command, cwd=home)
        (home / "complete").touch()
    return python
