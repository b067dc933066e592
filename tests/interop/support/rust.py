"""Builds a Rust client program once per version of its sources; the first build takes some minutes."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

from tests.interop.support.tools import cache_directory, fills_cache, require, run_setup

PROGRAM = "pymq-interop-grpc"


@fills_cache
def built_program(sources: Path) -> Path:
    """Return the path of the compiled program of the folder `sources`."""
    files = sorted([*(sources / "src").glob("*.rs"), sources / "Cargo.toml", sources / "Cargo.lock"])
    digest = hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()[:16]
    program = cache_directory() / "rust" / f"{PROGRAM}-{digest}"
    if not program.exists():
        (cargo,) = require("cargo")
        target = cache_directory() / "rust" / "target"
        env = {**os.environ, "CARGO_TARGET_DIR": str(target)}
        run_setup("building the Rust client program", [cargo, "build", "--locked", "-q"], cwd=sources, env=env)
        shutil.copy2(target / "debug" / PROGRAM, program)
    return program
