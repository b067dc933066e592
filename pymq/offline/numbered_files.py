"""Lists the files of a log or of a queue, also while a broker adds some."""

from __future__ import annotations

from pymq.store.disk.fs import Files


def numbered_files(files: Files, directory: str) -> list[int]:
    """Return the numbers that are the names of files, in order: each file's first byte offset.

    Systems list a directory in several steps, so a listing may show a new file without the one made just before it.
    All files before the first listing's newest were there when the second one began: it shows them. Raises OSError.
    """
    listed = _numbers(files, directory)
    return [number for number in _numbers(files, directory) if number <= listed[-1]] if listed else []


def _numbers(files: Files, directory: str) -> list[int]:
    return sorted(int(name) for name in files.listdir(directory) if len(name) == 20 and name.isdigit())
