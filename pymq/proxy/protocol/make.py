"""Makes descriptor.py of the .proto files here; scripts/proto runs it: the compiler is no dependency of PyMQ."""

from __future__ import annotations

import base64
import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
SOURCES = [HERE / name for name in ("messaging.proto", "health.proto", "reflection.proto")]
TARGET = HERE / "descriptor.py"
LINE_LENGTH = 112


def source_digest() -> str:
    """Return the SHA-256 of the definitions, which descriptor.py names as its source."""
    return hashlib.sha256(b"".join(source.read_bytes() for source in SOURCES)).hexdigest()


def compiled() -> bytes:
    """Return the definitions as a serialized FileDescriptorSet. Raises CalledProcessError."""
    with tempfile.TemporaryDirectory() as directory:
        target = Path(directory) / "set"
        command = [
            sys.executable,
            "-m",
            "grpc_tools.protoc",
            f"-I{HERE}",
            f"--descriptor_set_out={target}",
            *[source.name for source in SOURCES],
        ]
        subprocess.run(command, check=True)
        return target.read_bytes()


def module_text(descriptors: bytes) -> str:
    """Return the text of descriptor.py."""
    text = base64.b85encode(descriptors).decode()
    lines = [f"    {text[at : at + LINE_LENGTH]!r}" for at in range(0, len(text), LINE_LENGTH)]
    lines = [line.replace("'", '"') if '"' not in line and "\\" not in line else line for line in lines]
    return "\n".join(
        [
            '"""The definitions in the .proto files here, compiled: scripts/proto makes this file."""',
            "",
            f'SOURCE_SHA256 = "{source_digest()}"',
            "DESCRIPTOR_SET_BASE85 = (",
            *lines,
            ")",
            "",
        ]
    )


if __name__ == "__main__":
    TARGET.write_text(module_text(compiled()))
