"""Compares blocks of the log with the digests that PyMQ keeps beside it, and finds the wrong bit when it is only one.

A digest covers every byte, even those of a record's head that no CRC covers. It also proves that a bit was restored.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pymq.offline.directory import Directory
from pymq.offline.findings import Report
from pymq.offline.log_files import SegmentFile
from pymq.store.integrity.damage import find_flip
from pymq.store.integrity.digest_file import BLOCK_SIZE_BYTES, DIGEST_SIZE_BYTES, UNKNOWN, DigestFiles
from pymq.store.integrity.digests import block_digests

_BLOCKS_AT_ONCE = 1024
FLIPS_SEARCHED_MAX = 1000  # each search takes some 15 ms


class BadBlock(NamedTuple):
    """A block that differs from its digest.

    ``flip``: (position in the segment, mask) when one wrong bit explains it.
    """

    segment: SegmentFile
    at: int
    flip: tuple[int, int] | None


class DigestCheck:
    """Compares digests that count: after an unclean stop, or when RocketMQ wrote last, not those of the newest part."""

    def __init__(self, directory: Directory) -> None:
        self._table = DigestFiles(directory.files, f"{directory.root}/digests")
        durable = directory.checkpoint.durable
        self._durable_offset = durable.log_offset if durable is not None else 0
        self._searched = 0
        self.block_count = 0

    def bad_blocks(self, segment: SegmentFile) -> Iterator[BadBlock]:
        """Yield the blocks of one segment that differ from their digest, in order."""
        end = self._known_blocks(segment)
        for first in range(0, end, _BLOCKS_AT_ONCE):
            after = min(first + _BLOCKS_AT_ONCE, end)
            expected = bytes(self._table.get(segment.start, first, after))
            if not any(expected):
                continue
            data = memoryview(segment.read(first * BLOCK_SIZE_BYTES, (after - first) * BLOCK_SIZE_BYTES))
            found = block_digests(data)
            self.block_count += after - first
            if found == expected:
                continue
            for number in range(after - first):
                place = slice(number * DIGEST_SIZE_BYTES, (number + 1) * DIGEST_SIZE_BYTES)
                if expected[place] not in (UNKNOWN, found[place]):
                    at = (first + number) * BLOCK_SIZE_BYTES
                    block = bytes(data[number * BLOCK_SIZE_BYTES : (number + 1) * BLOCK_SIZE_BYTES])
                    yield BadBlock(segment, at, self._flip(block, at, expected[place]))

    def _known_blocks(self, segment: SegmentFile) -> int:
        header = self._table.header(segment.start)
        if header is None:
            return 0
        count = -(-segment.size // BLOCK_SIZE_BYTES)
        if header.settled and self._last_fits(segment, count - 1):
            return count
        kept = max(0, min(self._durable_offset, segment.end) - segment.start)
        return count if kept == segment.size else kept // BLOCK_SIZE_BYTES

    def _last_fits(self, segment: SegmentFile, number: int) -> bool:
        """Return False when another broker has truncated the segment and written it again."""
        if segment.end <= self._durable_offset:
            return True
        last = segment.read(number * BLOCK_SIZE_BYTES, BLOCK_SIZE_BYTES)
        return bytes(self._table.get(segment.start, number, number + 1)) == block_digests(memoryview(last))

    def _flip(self, block: bytes, at: int, expected: bytes) -> tuple[int, int] | None:
        self._searched += 1
        if self._searched > FLIPS_SEARCHED_MAX:
            return None
        found = find_flip(block, expected, range(len(block)))
        return None if found is None else (at + found // 8, 1 << found % 8)


def report_bad_block(report: Report, bad: BadBlock) -> None:
    """Add a block to the findings: its one wrong bit, or all of it."""
    segment = bad.segment
    if bad.flip is not None:
        position, mask = bad.flip
        text = f"bit {mask.bit_length() - 1} of this byte is flipped, according to the digest of its block"
        report.add("digest", text, segment.path, position, segment.start + position)
    else:
        text = f"the {BLOCK_SIZE_BYTES} bytes from here on differ from what was stored, according to their digest"
        report.add("digest", text, segment.path, bad.at, segment.start + bad.at)


def patch_flipped_bits(directory: Directory) -> list[tuple[SegmentFile, int, int]]:
    """Make the directory's log read as if every single flipped bit that a digest proves were restored.

    The files stay unchanged. Returns (segment, position, mask) of each bit.
    """
    check = DigestCheck(directory)
    patched = []
    for segment in directory.log.segments:
        for bad in list(check.bad_blocks(segment)):
            if bad.flip is not None:
                position, mask = bad.flip
                segment.patches[position] = mask
                patched.append((segment, position, mask))
    return patched
