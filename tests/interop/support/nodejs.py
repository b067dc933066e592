"""Installs a Node client's modules once per version of its package file."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from tests.interop.support.tools import cache_directory, fills_cache, require, run_setup

SOURCES = Path(__file__).parent.parent / "node"


@fills_cache
def modules_directory(sources: Path = SOURCES) -> Path:
    """Return the directory that holds the installed node_modules of the package file in `sources`."""
    package = sources / "package.json"
    home = cache_directory() / "node" / hashlib.sha256(package.read_bytes()).hexdigest()[:16]
    if not (home / "complete").exists():
        (npm,) = require("npm")
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        shutil.copy(package, home / "package.json")
        run_setup("installing the client with npm", [npm, "install", "--silent", "--no-audit", "--no-fund"], cwd=home)
        (home / "complete").touch()
    return home
