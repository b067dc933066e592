"""Scrubber: reads sealed segments again, block by block, to find damage before a consumer does.

It compares blocks with their digests. A block without one (another broker wrote the segment, or a side file was lost)
gets a digest once every record in it has passed its checks. Any thread may read a piece; the store's thread looks at
suspect pieces again before they count as damaged.
"""

from __future__ import annotations

import logging

from pymq.store.integrity.damage import uncovered
from pymq.store.integrity.digest_file import BLOCK_SIZE_BYTES, DIGEST_SIZE_BYTES, UNKNOWN, split_digests
from pymq.store.integrity.digests import Digests, block_digests
from pymq.store.log.commit_log import CommitLog, Segment
from pymq.store.log.doubts import Span

log = logging.getLogger(__name__)

COMPARED_BYTES = 1 << 20  # one piece: 0.1 ms of hashing beside the reading
PROVEN_BYTES = 1 << 16  # one piece without digests: up to 1 ms of Python
FOUND_COUNT_MAX = 1000  # damaged places kept in memory


class ScrubPiece:
    """A part of a sealed segment. Any thread may call :meth:`run`, which never fails."""

    def __init__(self, segment: Segment, at: int, size: int, wanted: bytes) -> None:
        self.segment = segment
        self.at = at
        self.size = size
        self.wanted = wanted
        self.actual = b""
        self.is_suspect = False
        self.error: OSError | None = None

    def run(self) -> None:
        try:
            data = self.segment.read(self.at, self.size)
            self.actual = block_digests(data)
            if UNKNOWN in split_digests(self.wanted):
                self.is_suspect = bool(uncovered(self.segment, self.at, self.size))
            elif self.actual != self.wanted:
                self.is_suspect = True
        except OSError as error:
            self.error = error


class Scrubber:
    """Walks over all sealed segments, from the oldest on. One thread calls everything but :meth:`ScrubPiece.run`."""

    def __init__(self, log: CommitLog, digests: Digests) -> None:
        self._log = log
        self.digests = digests
        self._next_offset = 0
        self.found: dict[int, int] = {}  # damaged places: physical offset of begin -> of end
        self.bytes_read = 0
        self.pass_count = 0  # completed

    def next_piece(self) -> ScrubPiece | None:
        """The next piece to read; None at the end of a pass: the next call begins a new one."""
        offset = max(self._next_offset, self._log.min_offset)
        segment = self._log.find(offset)
        if segment is None or not segment.sealed or segment.end > self.digests.next_offset:
            self._next_offset = 0
            self.pass_count += 1
            return None
        at = offset - segment.start
        size = min(COMPARED_BYTES, segment.end - offset)
        wanted = self._wanted(segment, at, size)
        if UNKNOWN in split_digests(wanted):
            size = min(PROVEN_BYTES, size)
            wanted = self._wanted(segment, at, size)
        self._next_offset = offset + size
        return ScrubPiece(segment, at, size, wanted)

    def _wanted(self, segment: Segment, at: int, size: int) -> bytes:
        return bytes(self.digests.table.get(segment.start, at // BLOCK_SIZE_BYTES, -(-(at + size) // BLOCK_SIZE_BYTES)))

    def finish(self, piece: ScrubPiece) -> None:
        """Take over what a piece found, unless its segment was deleted meanwhile."""
        segment = piece.segment
        if self._log.find(segment.start) is not segment:
            return
        self.bytes_read += piece.size
        start = segment.start + piece.at
        if piece.error is None and not piece.is_suspect:
            if piece.actual != piece.wanted:
                self.digests.set_checked(segment, piece.at, piece.actual)
            return
        try:
            damaged, unproven = self._look_again(piece)
        except OSError as error:
            self._note_damage(start, start + piece.size, f"{error.strerror} (errno {error.errno})")
            return
        for a, b in damaged:
            self._note_damage(a, b, "not as it was written")
        for a, b in unproven:
            self._note_damage(a, b, "no message can be read there")

    def _look_again(self, piece: ScrubPiece) -> tuple[list[Span], list[Span]]:
        """(damaged bytes, bytes without a digest that hold no record) of a piece. Raises OSError."""
        segment, at = piece.segment, piece.at
        data = segment.read(at, piece.size)
        doubts = self.digests.check(segment, data, at)
        gaps: list[Span] = []
        if UNKNOWN in split_digests(piece.wanted):
            gaps = uncovered(segment, at, piece.size)
            self.digests.set_checked(segment, at, _without(block_digests(data), gaps, at))
        return doubts.damaged if doubts is not None else [], [(segment.start + a, segment.start + b) for a, b in gaps]

    def _note_damage(self, start: int, end: int, why: str) -> None:
        if start in self.found or len(self.found) >= FOUND_COUNT_MAX:
            return
        self.found[start] = end
        log.error("scrubbing found the log damaged from offset %d to %d: %s", start, end, why)

    @property
    def problem(self) -> str | None:
        """What an operator should know; None when no damage was found."""
        if not self.found:
            return None
        return (
            f"scrubbing found the log damaged, first at offset {next(iter(self.found))}: messages there are refused, "
            f"all others are served; `pymq store verify` on the stopped store lists them"
        )


def _without(digests: bytes, gaps: list[Span], at: int) -> bytes:
    """The digests of blocks from position ``at`` on; blocks with a gap in them get :data:`UNKNOWN`."""
    kept = split_digests(digests)
    for start, end in gaps:
        for number in range((start - at) // BLOCK_SIZE_BYTES, -(-(end - at) // BLOCK_SIZE_BYTES)):
            kept[number] = bytes(DIGEST_SIZE_BYTES)
    return b"".join(kept)
