"""The folder for what PyMQ can make again, as the XDG Base Directory Specification says."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Return ``$XDG_CACHE_HOME/pymq``, else ``~/.cache/pymq``. A relative XDG_CACHE_HOME does not count."""
    home = environ.get("XDG_CACHE_HOME", "")
    base = Path(home) if home.startswith("/") else Path("~/.cache").expanduser()
    return base / "pymq"
