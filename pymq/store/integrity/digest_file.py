"""The side file with one xxh3 digest for each 4 KiB block of a log segment: ``digests/<20 digits>``.

The file consists of sectors of 512 bytes, each with its own checksum, because a disk writes a sector whole: after a
power loss every sector is the old one, the new one or recognizably neither. Sector 0 is the header; each other sector
holds the digests of 63 blocks. A digest of zeros means "not known".
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from typing import NamedTuple

from xxhash import xxh3_64_digest

from pymq.store.disk.fs import Files

BLOCK_SIZE_BYTES = 4096
DIGEST_SIZE_BYTES = 8
SECTOR_SIZE_BYTES = 512
BLOCKS_PER_SECTOR = 63
SECTORS_PER_PAGE = 64  # loaded and kept in memory together: the digests of 15.75 MiB of log
BLOCKS_PER_PAGE = BLOCKS_PER_SECTOR * SECTORS_PER_PAGE
PAGES_IN_MEMORY_MAX = 128  # 4 MiB of digests, for 2 GiB of log
UNKNOWN = bytes(DIGEST_SIZE_BYTES)
BAD = b"\xff" * DIGEST_SIZE_BYTES  # the block was damaged before it was full

_PAYLOAD_SIZE_BYTES = BLOCKS_PER_SECTOR * DIGEST_SIZE_BYTES
_PAGE_SIZE_BYTES = SECTORS_PER_PAGE * SECTOR_SIZE_BYTES
_MAGIC = b"PYMQDIG\x01"
_HEADER = struct.Struct(">8sqii q i8s")  # magic, segment start, block size, flags, tail position, tail length, digest
_FLAG_SETTLED = 1
_SEED_MASK = (1 << 64) - 1


class OpenBlock(NamedTuple):
    """The block at the log's end that is not full: its position in the segment, its size in bytes, and their digest."""

    at: int
    size: int
    digest: bytes


class DigestHeader(NamedTuple):
    """``settled``: the whole segment is digested and on the disk, so only damage changes it."""

    settled: bool = False
    tail: OpenBlock | None = None


class DigestFiles:
    """The side files of all segments, with a bounded number of their pages in memory. One thread calls everything.

    A file that is missing, short or damaged reads as "not known". Only writing raises OSError.
    """

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self.directory = directory
        self._pages: OrderedDict[tuple[int, int], bytearray] = OrderedDict()
        self._dirty: dict[tuple[int, int], set[int]] = {}  # page -> its changed sectors

    def path(self, segment_start: int) -> str:
        return f"{self.directory}/{segment_start:020d}"

    def segment_starts(self) -> list[int]:
        """Segments that have a side file."""
        names = self._files.listdir(self.directory)
        return [int(name) for name in names if len(name) == 20 and name.isdigit()]

    def remove(self, segment_start: int) -> None:
        """Delete a segment's side file. Raises OSError."""
        for key in [key for key in self._pages if key[0] == segment_start]:
            del self._pages[key]
            self._dirty.pop(key, None)
        if self._files.exists(self.path(segment_start)):
            self._files.remove(self.path(segment_start))

    # -- digests ------------------------------------------------------------------------------------------------

    def get(self, segment_start: int, first: int, end: int) -> bytes | bytearray:
        """The digests of blocks ``first`` to ``end`` (exclusive), 8 bytes each."""
        page_number, at = divmod(first, BLOCKS_PER_PAGE)
        if at + end - first <= BLOCKS_PER_PAGE:
            page = self._page(segment_start, page_number)
            return page[at * DIGEST_SIZE_BYTES : (at + end - first) * DIGEST_SIZE_BYTES]
        border = (page_number + 1) * BLOCKS_PER_PAGE
        return bytes(self.get(segment_start, first, border)) + bytes(self.get(segment_start, border, end))

    def put(self, segment_start: int, first: int, digests: bytes) -> None:
        """Set the digests of blocks from ``first`` on; :meth:`write` brings them to the file."""
        done, count = 0, len(digests) // DIGEST_SIZE_BYTES
        while done < count:
            page_number, at = divmod(first + done, BLOCKS_PER_PAGE)
            here = min(count - done, BLOCKS_PER_PAGE - at)
            page = self._page(segment_start, page_number)
            page[at * DIGEST_SIZE_BYTES : (at + here) * DIGEST_SIZE_BYTES] = digests[
                done * DIGEST_SIZE_BYTES : (done + here) * DIGEST_SIZE_BYTES
            ]
            sectors = range(at // BLOCKS_PER_SECTOR, (at + here - 1) // BLOCKS_PER_SECTOR + 1)
            self._dirty.setdefault((segment_start, page_number), set()).update(sectors)
            done += here

    def _page(self, segment_start: int, page_number: int) -> bytearray:
        key = (segment_start, page_number)
        page = self._pages.get(key)
        if page is None:
            page = self._load_page(segment_start, page_number)
            # Before the page is there: it would be dropped itself when all others wait to be written.
            self._forget_oldest(PAGES_IN_MEMORY_MAX - 1)
            self._pages[key] = page
        else:
            self._pages.move_to_end(key)
        return page

    def _forget_oldest(self, kept_max: int = PAGES_IN_MEMORY_MAX) -> None:
        while len(self._pages) > kept_max:
            oldest = next((key for key in self._pages if key not in self._dirty), None)
            if oldest is None:
                return
            del self._pages[oldest]

    def _load_page(self, segment_start: int, page_number: int) -> bytearray:
        page = bytearray(BLOCKS_PER_PAGE * DIGEST_SIZE_BYTES)
        raw = self._read(segment_start, SECTOR_SIZE_BYTES + page_number * _PAGE_SIZE_BYTES, _PAGE_SIZE_BYTES)
        for sector in range(len(raw) // SECTOR_SIZE_BYTES):
            payload = _open_sector(
                raw[sector * SECTOR_SIZE_BYTES : (sector + 1) * SECTOR_SIZE_BYTES],
                segment_start,
                1 + page_number * SECTORS_PER_PAGE + sector,
            )
            if payload is not None:
                page[sector * _PAYLOAD_SIZE_BYTES : (sector + 1) * _PAYLOAD_SIZE_BYTES] = payload
        return page

    def _read(self, segment_start: int, at: int, size: int) -> bytes:
        path = self.path(segment_start)
        try:
            file = self._files.open(path)
        except OSError:
            return b""
        try:
            return file.pread(at, size)
        except OSError:
            return b""
        finally:
            file.close()

    # -- header and files ---------------------------------------------------------------------------------------

    def header(self, segment_start: int) -> DigestHeader | None:
        """The header; None when there is no file, or it is of another segment or block size."""
        payload = _open_sector(self._read(segment_start, 0, SECTOR_SIZE_BYTES), segment_start, 0)
        if payload is None:
            return None
        magic, start, block_size, flags, tail_at, tail_size, digest = _HEADER.unpack_from(payload)
        if (magic, start, block_size) != (_MAGIC, segment_start, BLOCK_SIZE_BYTES):
            return None
        return DigestHeader(bool(flags & _FLAG_SETTLED), OpenBlock(tail_at, tail_size, digest) if tail_size else None)

    @property
    def has_changes(self) -> bool:
        """True when some digests are not in their file yet."""
        return bool(self._dirty)

    def changed(self) -> set[int]:
        """Segments with digests that are not in their file yet."""
        return {segment_start for segment_start, _ in self._dirty} if self._dirty else set()

    def write(self, segment_start: int, header: DigestHeader) -> None:
        """Write a segment's changed digests and its header. Raises OSError; then they still count as changed."""
        file = self._files.open(self.path(segment_start), create=True)
        try:
            for key in [key for key in self._dirty if key[0] == segment_start]:
                page = self._pages[key]
                for sector in sorted(self._dirty[key]):
                    payload = bytes(page[sector * _PAYLOAD_SIZE_BYTES : (sector + 1) * _PAYLOAD_SIZE_BYTES])
                    number = 1 + key[1] * SECTORS_PER_PAGE + sector
                    file.pwrite(number * SECTOR_SIZE_BYTES, _close_sector(payload, segment_start, number))
                del self._dirty[key]
            tail = header.tail or OpenBlock(0, 0, UNKNOWN)
            raw = _HEADER.pack(
                _MAGIC, segment_start, BLOCK_SIZE_BYTES, _FLAG_SETTLED * header.settled, tail.at, tail.size, tail.digest
            )
            file.pwrite(0, _close_sector(raw.ljust(_PAYLOAD_SIZE_BYTES, b"\0"), segment_start, 0))
        finally:
            file.close()
        self._forget_oldest()


def _close_sector(payload: bytes, segment_start: int, number: int) -> bytes:
    return payload + xxh3_64_digest(payload, (segment_start + number) & _SEED_MASK)


def _open_sector(raw: bytes, segment_start: int, number: int) -> bytes | None:
    """A sector's payload; None when it is short, was never written, is damaged or belongs to another place."""
    payload = raw[:_PAYLOAD_SIZE_BYTES]
    if xxh3_64_digest(payload, (segment_start + number) & _SEED_MASK) != raw[_PAYLOAD_SIZE_BYTES:SECTOR_SIZE_BYTES]:
        return None
    return payload


def split_digests(digests: bytes | bytearray) -> list[bytes]:
    """The single digests of a joined string of them."""
    raw = bytes(digests)
    return [raw[at : at + DIGEST_SIZE_BYTES] for at in range(0, len(raw), DIGEST_SIZE_BYTES)]
