"""A log segment in compressed form: ``coldlog/<20 digits>.zst``, zstandard's seekable format.

Such a file has independent frames of 256 KiB each, then a skippable frame with their sizes, the seek table. Reading a
part decompresses the frames that hold it, and plain ``zstd -d`` gives the segment back byte for byte. The seek table's
numbers are little endian (zstd, contrib/seekable_format/zstd_seekable_compression_format.md).
"""

from __future__ import annotations

import errno
import struct
from collections import OrderedDict
from collections.abc import Sequence
from itertools import accumulate
from threading import Lock

from pymq.errors import StoreError
from pymq.store.disk.fs import Buffer, File, Files

FRAME_BYTES = 1 << 18
COMPRESSION_LEVEL = 3
TEMPORARY_SUFFIX = ".tmp"
CACHE_BYTES_MAX = 8 << 20  # of decompressed frames, of all segments together

_SKIPPABLE = struct.Struct("<II")  # magic, size of the bytes that follow
_SKIPPABLE_MAGIC = 0x184D2A5E
_ENTRY = struct.Struct("<II")  # compressed size, decompressed size
_FOOTER = struct.Struct("<IBI")  # number of frames, descriptor, magic
_FOOTER_MAGIC = 0x8F92EAB1


def compress_frame(data: Buffer) -> bytes:
    """Return ``data`` as one frame, with its own checksum."""
    from zstandard import ZstdCompressor  # noqa: PLC0415 - only stores with cold segments pay for it

    return ZstdCompressor(level=COMPRESSION_LEVEL, write_checksum=True, write_content_size=True).compress(data)


def encode_seek_table(sizes: Sequence[tuple[int, int]]) -> bytes:
    """Return the skippable frame that ends the file. ``sizes``: (compressed, decompressed) bytes of each frame."""
    body = b"".join(_ENTRY.pack(*size) for size in sizes) + _FOOTER.pack(len(sizes), 0, _FOOTER_MAGIC)
    return _SKIPPABLE.pack(_SKIPPABLE_MAGIC, len(body)) + body


class FrameCache:
    """Keeps the most recently used frames decompressed. Safe from any thread."""

    def __init__(self, bytes_max: int = CACHE_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._frames: OrderedDict[tuple[str, int], bytes] = OrderedDict()
        self._lock = Lock()
        self.size_bytes = 0

    def get(self, path: str, number: int) -> bytes | None:
        with self._lock:
            frame = self._frames.get((path, number))
            if frame is not None:
                self._frames.move_to_end((path, number))
            return frame

    def put(self, path: str, number: int, frame: bytes) -> None:
        with self._lock:
            before = self._frames.pop((path, number), b"")
            self._frames[path, number] = frame
            self.size_bytes += len(frame) - len(before)
            while self.size_bytes > self._bytes_max:
                self.size_bytes -= len(self._frames.popitem(last=False)[1])

    def forget(self, path: str) -> None:
        """Drop a file's frames."""
        with self._lock:
            for key in [key for key in self._frames if key[0] == path]:
                self.size_bytes -= len(self._frames.pop(key))


class ColdFile:
    """A compressed segment that reads like a plain one. Writing raises OSError (EROFS)."""

    def __init__(self, file: File, cache: FrameCache) -> None:
        """Take over ``file``. Raises StoreError when it is not a complete seekable file."""
        self.path = file.path
        self._file = file
        self._cache = cache
        self.stored_bytes = file.size()
        sizes = _read_seek_table(file, self.stored_bytes)
        self._starts = [0, *accumulate(compressed for compressed, _ in sizes)]
        self._size = sum(size for _, size in sizes)
        self._frame_bytes = sizes[0][1]
        if any(size != self._frame_bytes for _, size in sizes[:-1]) or not 0 < sizes[-1][1] <= self._frame_bytes:
            raise StoreError(f"{self.path} has frames of different sizes: PyMQ did not write it")

    def pread(self, at: int, size: int) -> bytes:
        """Return bytes of the plain segment, as :meth:`File.pread` does. Raises OSError for a damaged frame."""
        end = min(at + size, self._size)
        if at >= end:
            return b""
        first, last = at // self._frame_bytes, (end - 1) // self._frame_bytes
        start = first * self._frame_bytes
        if first == last:
            return self._frame(first)[at - start : end - start]
        return b"".join([self._frame(number) for number in range(first, last + 1)])[at - start : end - start]

    def pread_into(self, at: int, room: memoryview) -> int:
        data = self.pread(at, len(room))
        room[: len(data)] = data
        return len(data)

    def will_read(self, at: int, size: int) -> None:
        return None  # a frame is read whole, and may be in the cache

    def _frame(self, number: int) -> bytes:
        from zstandard import ZstdDecompressor, ZstdError  # noqa: PLC0415 - only stores with cold segments pay for it

        frame = self._cache.get(self.path, number)
        if frame is None:
            start, end = self._starts[number], self._starts[number + 1]
            raw = self._file.pread(start, end - start)
            wanted = min(self._frame_bytes, self._size - number * self._frame_bytes)
            try:
                frame = ZstdDecompressor().decompress(raw, max_output_size=wanted)
            except ZstdError as error:
                raise OSError(errno.EIO, f"frame {number} of the compressed segment is damaged", self.path) from error
            if len(frame) != wanted:
                raise OSError(errno.EIO, f"frame {number} of the compressed segment is too short", self.path)
            self._cache.put(self.path, number, frame)
        return frame

    def size(self) -> int:
        """Return the size of the plain segment in bytes."""
        return self._size

    def next_data(self, at: int) -> int | None:
        return at if at < self._size else None

    def sync(self) -> None:
        return None  # the file was on the disk before it replaced the plain one

    def release(self, view: memoryview) -> None:
        return None

    def close(self) -> None:
        self._cache.forget(self.path)
        self._file.close()

    def view(self) -> memoryview:
        raise OSError(errno.EOPNOTSUPP, "a compressed segment can't be mapped", self.path)

    def writable_view(self) -> memoryview:
        raise self._read_only()

    def pwrite(self, at: int, data: Buffer) -> None:
        raise self._read_only()

    def pwritev(self, at: int, buffers: Sequence[Buffer]) -> None:
        raise self._read_only()

    def allocate(self, at: int, size: int) -> None:
        raise self._read_only()

    def truncate(self, size: int) -> None:
        raise self._read_only()

    def _read_only(self) -> OSError:
        return OSError(
            errno.EROFS, "a compressed segment can't be changed: `pymq store thaw` makes it plain", self.path
        )


def _read_seek_table(file: File, size: int) -> list[tuple[int, int]]:
    """Return (compressed, decompressed) sizes of all frames in bytes. Raises StoreError."""
    broken = StoreError(f"{file.path} is not a compressed segment, or it is damaged: its seek table can't be read")
    if size < _SKIPPABLE.size + _ENTRY.size + _FOOTER.size:
        raise broken
    count, descriptor, magic = _FOOTER.unpack(file.pread(size - _FOOTER.size, _FOOTER.size))
    body_size = count * _ENTRY.size + _FOOTER.size
    start = size - body_size - _SKIPPABLE.size
    if magic != _FOOTER_MAGIC or descriptor != 0 or count == 0 or start < 0:
        raise broken
    raw = file.pread(start, size - start)
    if _SKIPPABLE.unpack_from(raw) != (_SKIPPABLE_MAGIC, body_size):
        raise broken
    sizes = [_ENTRY.unpack_from(raw, _SKIPPABLE.size + number * _ENTRY.size) for number in range(count)]
    if sum(compressed for compressed, _ in sizes) != start:
        raise broken
    return sizes


class ColdFiles:
    """The directory of compressed segments."""

    SUFFIX = ".zst"

    def __init__(self, files: Files, directory: str) -> None:
        self.files = files
        self.directory = directory
        self.cache = FrameCache()

    def path(self, start: int) -> str:
        return f"{self.directory}/{start:020d}{self.SUFFIX}"

    def starts(self) -> list[int]:
        """Return the physical offsets at which compressed segments start, in ascending order."""
        names = self.files.listdir(self.directory)
        stems = [name.removesuffix(self.SUFFIX) for name in names if name.endswith(self.SUFFIX)]
        return [int(stem) for stem in stems if len(stem) == 20 and stem.isdigit()]

    def open(self, start: int) -> ColdFile:
        """Open the segment that starts at ``start``. Raises StoreError or OSError."""
        file = self.files.open(self.path(start))
        try:
            return ColdFile(file, self.cache)
        except BaseException:
            file.close()
            raise

    def remove(self, start: int) -> None:
        """Delete a compressed segment; the removal is on the disk on return. Raises OSError."""
        self.cache.forget(self.path(start))
        self.files.remove(self.path(start))
        self.files.sync_dir(self.directory)

    def remove_leftovers(self, log_directory: str) -> None:
        """Delete temporary files of a crashed compression, or of a thaw into ``log_directory``. Raises OSError."""
        for directory, suffix in ((self.directory, self.SUFFIX + TEMPORARY_SUFFIX), (log_directory, TEMPORARY_SUFFIX)):
            for name in self.files.listdir(directory):
                if name.endswith(suffix) and len(name) == 20 + len(suffix) and name[:20].isdigit():
                    self.files.remove(f"{directory}/{name}")
