"""Overwrites truncated bytes with zeros in place, so that a file keeps its size if the process dies or the disk fails.

Shortening the file and growing it again would be simpler. A crash between the two would leave a file that can't be
opened.
"""

from __future__ import annotations

from pymq.store.disk.fs import File

_CHUNK_BYTES = 1 << 16
PAGE_BYTES = 4096


def first_nonzero(file: File, at: int) -> int | None:
    """Return the position of the first nonzero byte from ``at`` on, None when all are zero. Raises OSError."""
    position = file.next_data(at)
    # The page of a file's end comes alone: behind it there is mostly a hole, which a read would fill with zeros.
    size = PAGE_BYTES - at % PAGE_BYTES
    while position is not None:
        chunk = file.pread(position, size)
        size = _CHUNK_BYTES
        rest = chunk.lstrip(b"\0")
        if rest:
            return position + len(chunk) - len(rest)
        if not chunk:
            return None
        position = file.next_data(position + len(chunk))
    return None


def nonzero_bytes(file: File, at: int) -> int:
    """Return the number of bytes from the first to the last nonzero byte from ``at`` on. Raises OSError."""
    first = position = first_nonzero(file, at)
    end = 0
    while position is not None:
        chunk = file.pread(position, _CHUNK_BYTES)
        end = position + len(chunk.rstrip(b"\0"))
        position = first_nonzero(file, position + len(chunk))
    return 0 if first is None else end - first


def zero_from(file: File, at: int, size: int) -> bool:
    """Zero every byte from ``at`` on and make the file ``size`` bytes long. Returns False when both held already.

    Holes stay holes: nothing is written where there was no data, so that this works on most full disks. Raises OSError.
    """
    position = first_nonzero(file, at)
    found = position is not None
    try:
        while position is not None:
            chunk = file.pread(position, _CHUNK_BYTES)
            file.pwrite(position, bytes(len(chunk.rstrip(b"\0"))))
            position = first_nonzero(file, position + len(chunk))
    except OSError:
        # A copy-on-write file system may have no room left for an overwrite; shrinking needs none.
        file.truncate(at)
    if file.size() != size:
        file.truncate(size)
        found = True
    return found
