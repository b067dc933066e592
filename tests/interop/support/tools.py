"""Finds the outside tools that the interop tests need and reports the missing ones loudly.

A test that cannot run here must not look like one that passed: every skip goes through `unavailable`, names
the missing tool, and is repeated in the summary at the end of the session. With PYMQ_INTEROP_STRICT=1 a
missing tool is a failure instead.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import NoReturn, ParamSpec, TypeVar

import pytest

P = ParamSpec("P")
T = TypeVar("T")


def cache_directory() -> Path:
    """Return the cache of jars, built programs and node modules ($PYMQ_INTEROP_CACHE moves it)."""
    configured = os.environ.get("PYMQ_INTEROP_CACHE")
    directory = Path(configured) if configured else Path.home() / ".cache" / "pymq-interop"
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def fills_cache(function: Callable[P, T]) -> Callable[P, T]:
    """Let one process at a time run ``function``: several of a run may find the same part of the cache missing."""

    @wraps(function)
    def alone(*args: P.args, **kwargs: P.kwargs) -> T:
        with (cache_directory() / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            return function(*args, **kwargs)

    return alone


def unavailable(reason: str) -> NoReturn:
    """Skip the calling test with `reason`, or fail it when the run is strict."""
    if os.environ.get("PYMQ_INTEROP_STRICT") == "1":
        pytest.fail(f"interop, strict: {reason}", pytrace=False)
    pytest.skip(f"interop: {reason}")


def require(*names: str) -> list[str]:
    """Return the paths of the executables `names`; skip loudly and name the first missing one."""
    paths = []
    for name in names:
        path = shutil.which(name)
        if path is None:
            unavailable(f"{name} is not on PATH")
        paths.append(path)
    return paths


def own_places(directory: Path | str) -> list[str]:
    """Return the options of a JVM that keeps its files in ``directory``; a killed one leaves its temporary ones."""
    return [f"-Duser.home={directory}", f"-Djava.io.tmpdir={directory}"]


def run_setup(
    what: str, command: list[str], cwd: Path, timeout_s: float = 600, env: dict[str, str] | None = None
) -> None:
    """Run a setup step that needs a package registry; when it fails, skip loudly with the end of its output."""
    try:
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=timeout_s, env=env)
    except subprocess.TimeoutExpired:
        unavailable(f"{what} did not finish within {timeout_s:.0f} s")
    if done.returncode != 0:
        tail = " / ".join((done.stdout + done.stderr).strip().splitlines()[-4:])
        unavailable(f"{what} failed: {tail}")
