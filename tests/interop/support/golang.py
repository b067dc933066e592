"""Builds a Go program once per version of its sources."""

from __future__ import annotations

import hashlib
from pathlib import Path

from tests.interop.support.tools import cache_directory, fills_cache, require, run_setup

SOURCES = Path(__file__).parent.parent / "go"


@fills_cache
def built_program(sources: Path = SOURCES, package: str = ".") -> Path:
    """Return the path of the compiled program; the first build fetches its modules.

    ``package`` is what is built: the folder ``sources`` itself, one below it, or one of a module that its go.mod names.
    """
    files = sorted([*sources.rglob("*.go"), sources / "go.mod", sources / "go.sum"])
    parts = [package.encode(), *(file.read_bytes() for file in files)]
    digest = hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]
    program = cache_directory() / "go" / f"goclient-{digest}"
    if not program.exists():
        (go,) = require("go")
        program.parent.mkdir(parents=True, exist_ok=True)
        building = program.with_name(f"{program.name}.building")
        run_setup("building a Go program", [go, "build", "-o", str(building), package], cwd=sources)
        building.rename(program)
    return program
