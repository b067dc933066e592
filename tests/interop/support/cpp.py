"""The virtual environment of the C++ client's Python binding, whose top-level name is `rocketmq`."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

from tests.interop.support.tools import cache_directory, run_setup, unavailable

PROGRAM = Path(__file__).parent.parent / "cpp_client.py"
REQUIREMENT = "rocketmq==0.4.4"


def interpreter() -> Path:
    """Return the Python that can import the binding; skip loudly when its native library cannot be loaded."""
    home = cache_directory() / "cpp" / f"{REQUIREMENT}-py{sys.version_info.major}.{sys.version_info.minor}"
    python = home / "bin" / "python"
    if not (home / "complete").exists():
        venv.create(home, clear=True, with_pip=True)
        command = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", REQUIREMENT]
        run_setup(f"installing {REQUIREMENT}", command, cwd=home)
        (home / "complete").touch()
    loaded = subprocess.run([str(python), "-c", "import rocketmq.client"], capture_output=True, text=True)
    if loaded.returncode != 0:
        unavailable(f"the native library of {REQUIREMENT} can't be loaded: {loaded.stderr.strip().splitlines()[-1]}")
    return python
