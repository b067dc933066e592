"""The virtual environment of the C++ client's Python binding, whose top-level name is `rocketmq`."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.interop.support.tools import unavailable
from tests.interop.support.virtual_environments import python_with

PROGRAM = Path(__file__).parent.parent / "cpp_client.py"
CONNECTED_PROGRAM = PROGRAM.with_name("cpp_connected.py")
REQUIREMENT = "rocketmq==0.4.4"


def interpreter() -> Path:
    """Return the Python that can import the binding; skip loudly when its native library cannot be loaded."""
    python = python_with("cpp", REQUIREMENT)
    loaded = subprocess.run([str(python), "-c", "import rocketmq.client"], capture_output=True, text=True)
    if loaded.returncode != 0:
        unavailable(f"the native library of {REQUIREMENT} can't be loaded: {loaded.stderr.strip().splitlines()[-1]}")
    return python
