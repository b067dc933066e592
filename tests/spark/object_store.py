"""An object store in memory: no renames, no directories, objects that are there once their stream is closed."""

from __future__ import annotations

import io
import threading
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs


class MemoryStore(pafs.FileSystemHandler):
    """Objects by name. It answers ``requests_left`` more requests, and then none, as to a process that was killed.

    ``other`` shares its objects.
    """

    def __init__(self, other: MemoryStore | None = None, requests_left: int | None = None) -> None:
        self.objects: dict[str, bytes] = {} if other is None else other.objects
        self.requests_left = requests_left
        self._lock = threading.Lock()

    def ask(self) -> None:
        """Count a request."""
        with self._lock:
            if self.requests_left == 0:
                raise OSError("AWS Error NETWORK_CONNECTION during a request: no answer (Request ID: 1)")
            if self.requests_left is not None:
                self.requests_left -= 1

    def get_type_name(self) -> str:
        return "memory"

    def get_file_info(self, paths: list[str]) -> list[pafs.FileInfo]:
        self.ask()
        return [self._info(path) for path in paths]

    def get_file_info_selector(self, selector: pafs.FileSelector) -> list[pafs.FileInfo]:
        self.ask()
        prefix = f"{selector.base_dir}/"
        found: dict[str, None] = {}
        for name in list(self.objects):
            if name.startswith(prefix):
                rest = name.removeprefix(prefix).split("/")
                depths = range(1, len(rest) + 1) if selector.recursive else (1,)
                found.update({prefix + "/".join(rest[:depth]): None for depth in depths})
        return [self._info(name) for name in found]

    def open_output_stream(self, path: str, metadata: Any) -> pa.PythonFile:
        self.ask()
        return pa.PythonFile(_Upload(self, path), mode="w")

    def open_input_stream(self, path: str) -> pa.PythonFile:
        return self.open_input_file(path)

    def open_input_file(self, path: str) -> pa.PythonFile:
        self.ask()
        if path not in self.objects:
            raise FileNotFoundError(path)
        return pa.PythonFile(io.BytesIO(self.objects[path]), mode="r")

    def copy_file(self, src: str, dest: str) -> None:
        self.ask()
        if src not in self.objects:
            raise OSError(f"AWS Error NO_SUCH_KEY during CopyObject operation: {src}")
        self.objects[dest] = self.objects[src]

    def delete_file(self, path: str) -> None:
        self.ask()
        if self.objects.pop(path, None) is None:
            raise FileNotFoundError(path)

    def delete_dir(self, path: str) -> None:
        """Delete all objects of the directory, a request for each: a kill leaves the rest."""
        for name in [name for name in self.objects if name.startswith(f"{path}/")]:
            self.ask()
            del self.objects[name]

    def _info(self, path: str) -> pafs.FileInfo:
        if path in self.objects:
            return pafs.FileInfo(path, pafs.FileType.File, size=len(self.objects[path]))
        is_directory = any(name.startswith(f"{path}/") for name in list(self.objects))
        return pafs.FileInfo(path, pafs.FileType.Directory if is_directory else pafs.FileType.NotFound)

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("an object store can't do this")

    move = create_dir = open_append_stream = delete_dir_contents = delete_root_dir_contents = _refuse

    def normalize_path(self, path: str) -> str:
        return path


class _Upload(io.BytesIO):
    def __init__(self, store: MemoryStore, path: str) -> None:
        super().__init__()
        self._store = store
        self._path = path

    def close(self) -> None:
        if not self.closed:
            self._store.ask()
            self._store.objects[self._path] = self.getvalue()
        super().close()
