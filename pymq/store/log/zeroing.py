"""Zeros over the remains of what was cut, in place: a file keeps its size whenever the process dies or the disk fails.

Cutting a file and growing it again would be shorter, but a death between the two leaves a file that can't be opened.
"""

from __future__ import annotations

from pymq.store.disk.fs import File

_CHUNK_BYTES = 1 << 16


def first_nonzero(file: File, at: int) -> int | None:
    """Position of the first byte from ``at`` on that isn't zero; None when all are."""
    position = file.next_data(at)
    while position is not None:
        chunk = file.pread(position, _CHUNK_BYTES)
        rest = chunk.lstrip(b"\0")
        if rest:
            return position + len(chunk) - len(rest)
        if not chunk:
            return None
        position = file.next_data(position + len(chunk))
    return None


def nonzero_bytes(file: File, at: int) -> int:
    """How many bytes lie from the first to the last one behind ``at`` that isn't zero. Raises OSError."""
    first = position = first_nonzero(file, at)
    end = 0
    while position is not None:
        chunk = file.pread(position, _CHUNK_BYTES)
        end = position + len(chunk.rstrip(b"\0"))
        position = first_nonzero(file, position + len(chunk))
    return 0 if first is None else end - first


def zero_from(file: File, at: int, size: int) -> bool:
    """Makes every byte from ``at`` on zero and the file ``size`` bytes long; False when it was so. Raises OSError.

    Holes stay holes, and nothing is written where no data was: most disks have room for that even when they are full.
    """
    position = first_nonzero(file, at)
    found = position is not None
    try:
        while position is not None:
            chunk = file.pread(position, _CHUNK_BYTES)
            file.pwrite(position, bytes(len(chunk.rstrip(b"\0"))))
            position = first_nonzero(file, position + len(chunk))
    except OSError:
        # A disk that writes elsewhere what it overwrites may have no room left for it; shrinking needs none.
        file.truncate(at)
    if file.size() != size:
        file.truncate(size)
        found = True
    return found
