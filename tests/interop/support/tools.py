"""Finds the outside tools the interop tests need, and says aloud what is missing.

A test that can't run here must not look like one that passed: every skip goes through `unavailable`, names
what is missing, and is repeated in the summary at the end of the session. With PYMQ_INTEROP_STRICT=1 a
missing tool is a failure instead.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import NoReturn

import pytest


def cache_directory() -> Path:
    """Where jars, built programs and node modules are kept between runs ($PYMQ_INTEROP_CACHE moves it)."""
    configured = os.environ.get("PYMQ_INTEROP_CACHE")
    directory = Path(configured) if configured else Path.home() / ".cache" / "pymq-interop"
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def unavailable(reason: str) -> NoReturn:
    """Skips the calling test with `reason`, or fails it when the run is strict."""
    if os.environ.get("PYMQ_INTEROP_STRICT") == "1":
        pytest.fail(f"interop, strict: {reason}", pytrace=False)
    pytest.skip(f"interop: {reason}")


def require(*names: str) -> list[str]:
    """Paths of the executables `names`; skips aloud, naming the first one that is missing."""
    paths = []
    for name in names:
        path = shutil.which(name)
        if path is None:
            unavailable(f"{name} is not on PATH")
        paths.append(path)
    return paths


def run_setup(
    what: str, command: list[str], cwd: Path, timeout_s: float = 600, env: dict[str, str] | None = None
) -> None:
    """Runs a set-up step that needs a package registry; skips aloud with its last words if it fails."""
    try:
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=timeout_s, env=env)
    except subprocess.TimeoutExpired:
        unavailable(f"{what} did not finish within {timeout_s:.0f} s")
    if done.returncode != 0:
        tail = " / ".join((done.stdout + done.stderr).strip().splitlines()[-4:])
        unavailable(f"{what} failed: {tail}")
