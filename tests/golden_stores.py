"""Store directories of a real RocketMQ broker, kept packed: unpacks them, and reads what their manifests say."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import zstandard

STORES = Path(__file__).parent / "golden" / "stores"


@contextmanager
def packed_store(name: str) -> Iterator[tarfile.TarFile]:
    """Open the archive of a store as a stream: its members come once, in order."""
    with (STORES / f"{name}.tar.zst").open("rb") as packed:
        unpacked = zstandard.ZstdDecompressor().stream_reader(packed)
        with tarfile.open(fileobj=unpacked, mode="r|") as archive:
            # Python has filters since 3.11.4.
            archive.extraction_filter = getattr(tarfile, "data_filter", None)
            yield archive


def unpack_files(name: str, target: Path) -> Path:
    """Unpack a store below ``target``; return its directory."""
    with packed_store(name) as archive:
        archive.extractall(target)
    return target / "store"


def manifest_of(name: str) -> dict[str, Any]:
    """Return what a store held when it was left, as the broker's clients saw it."""
    manifest: dict[str, Any] = json.loads((STORES / f"{name}.manifest.json").read_text())
    return manifest


def unpack(name: str, target: Path) -> tuple[Path, dict[str, Any]]:
    """Do as :func:`unpack_files`; return the directory and the manifest."""
    return unpack_files(name, target), manifest_of(name)
