"""The few static files: read once, kept in memory, and named by their content, so that browsers keep them for good."""

from __future__ import annotations

import hashlib
from importlib.resources import files
from typing import Final, NamedTuple

_TYPES: Final = {".css": b"text/css; charset=utf-8", ".js": b"text/javascript; charset=utf-8", ".svg": b"image/svg+xml"}
KEPT: Final = b"public, max-age=31536000, immutable"


class StaticFile(NamedTuple):
    """One file as it is sent."""

    kind: bytes
    content: bytes


class StaticFiles:
    """The files of a package's folder ``static`` with a known type, by the name that browsers use."""

    def __init__(self, package: str) -> None:
        self._names: dict[str, str] = {}
        self._files: dict[str, StaticFile] = {}
        for path in files(package).joinpath("static").iterdir():
            stem, dot, end = path.name.rpartition(".")
            kind = _TYPES.get(dot + end)
            if kind is None:
                continue
            content = path.read_bytes()
            name = f"{stem}.{hashlib.sha256(content).hexdigest()[:16]}.{end}"
            self._names[path.name] = name
            self._files[name] = StaticFile(kind, content)

    def name_of(self, name: str) -> str:
        """Return the name with the content's hash. Raises KeyError."""
        return self._names[name]

    def find(self, name: str) -> StaticFile | None:
        """Return the file with this name and hash."""
        return self._files.get(name)

    @property
    def sizes_bytes(self) -> dict[str, int]:
        """The sizes of the files by their plain names."""
        return {plain: len(self._files[name].content) for plain, name in self._names.items()}
