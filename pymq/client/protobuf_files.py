"""Compiles Protobuf's ``.proto`` files to descriptors, with protoc in a process of its own."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Final

from pymq.client.codecs import CodecError
from pymq.client.schema_registry import RegistryError
from pymq.errors import UsageError
from pymq.packages import pip_install

COMPILE_TIMEOUT_S: Final = 30
MAIN: Final = "pymq_registered.proto"  # what the compiler calls the file that is asked for


def compiled(text: str, imports: Mapping[str, str]) -> bytes:
    """Return the descriptor set of a file and all that it imports, by the names that imports give.

    Google's own types are there. Raises CodecError, RegistryError for a name that is no place, UsageError without the
    package.
    """
    with tempfile.TemporaryDirectory(prefix="pymq-proto-") as folder:
        root = Path(folder)
        for name, needed in imports.items():
            path = PurePosixPath(name)
            if path.is_absolute() or ".." in path.parts or not path.parts:
                raise RegistryError(f"a reference has the name {name[:100]!r}, which is no place for a file")
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(needed, "utf-8")
        (root / MAIN).write_text(text, "utf-8")
        # A process of its own: the compiler is a library in C++ that ends the program at some errors.
        command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{root}", f"-I{_well_known()}", "--include_imports"]
        command += [f"--descriptor_set_out={root / 'set'}", MAIN]
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_TIMEOUT_S, check=False, cwd=root)
        if done.returncode or not (root / "set").is_file():
            raise CodecError(f"the schema can't be compiled: {done.stderr.strip()[:300]}")
        return (root / "set").read_bytes()


def _well_known() -> Path:
    """Return the folder of Google's own types."""
    found = find_spec("grpc_tools")
    if found is None or found.origin is None:
        raise UsageError(f"Protobuf schemas need the package grpcio-tools: {pip_install('registry')}")
    return Path(found.origin).parent / "_proto"
