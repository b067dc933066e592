"""The log, for rebuilding or comparing a copy: digests (9105) and raw bytes (9106), in small pieces."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import msgspec

from pymq.broker.raft.answer_proof import AnswerProof, log_bytes_at
from pymq.errors import Refusal, UnreadableError
from pymq.model.fastjson import JsonError
from pymq.model.strict_json import decode_json
from pymq.wire.bodies_replication import LogDigests, LogDigestsRequest, ReadLogRequest
from pymq.wire.codes import ResponseCode
from pymq.wire.command import Command
from pymq.wire.dispatch import Peer
from pymq.wire.reply import Reply

if TYPE_CHECKING:
    from pymq.config import BrokerConfig
    from pymq.store.store import MessageStore

# Each answer is made between two turns of the loop. At these sizes it takes about two milliseconds.
DIGESTED_BYTES_MAX = 4 << 20
DIGEST_COUNT_MAX = 4096
CHUNK_BYTES_MIN = 512
READ_BYTES_MAX = 1 << 20

RequestT = TypeVar("RequestT", LogDigestsRequest, ReadLogRequest)


class LogCopyHandlers:
    """Reads this broker's log, on a master or a slave."""

    def __init__(self, *, config: BrokerConfig, store: MessageStore, proof: AnswerProof | None = None) -> None:
        """``proof``: of a node's Raft group."""
        self._config = config
        self._store = store
        self._proof = proof

    def digests(self, request: Command, header: None, peer: Peer) -> Reply:
        """Return a digest for each chunk from ``start`` on, fewer than asked for when they would take long."""
        wanted = _decoded(request, LogDigestsRequest)
        if not CHUNK_BYTES_MIN <= wanted.chunk_bytes <= DIGESTED_BYTES_MAX:
            raise _bad(f"chunkBytes {wanted.chunk_bytes} is not between {CHUNK_BYTES_MIN} and {DIGESTED_BYTES_MAX}")
        if not 1 <= wanted.count_max <= DIGEST_COUNT_MAX:
            raise _bad(f"countMax {wanted.count_max} is not between 1 and {DIGEST_COUNT_MAX}")
        store = self._store
        log_end = store.physical_max_offset
        end = log_end if wanted.end < 0 else min(wanted.end, log_end)
        if wanted.start != log_end:
            self._check_inside(wanted.start)
        found = store.chunk_digests(
            wanted.start, end, wanted.chunk_bytes, count_max=wanted.count_max, bytes_max=DIGESTED_BYTES_MAX
        )
        answer = LogDigests(
            broker_name=self._config.broker_name,
            cluster=self._config.broker_cluster_name,
            segment_size_bytes=store.settings.segment_size_bytes,
            log_start=store.physical_min_offset,
            log_end=log_end,
            start=wanted.start,
            digests=found,
            deleted_topics=store.deletions.ends if wanted.with_deletions else {},
        )
        return Reply(body=msgspec.json.encode(answer))

    def read(self, request: Command, header: None, peer: Peer) -> Reply:
        """Return raw bytes from ``start`` on, at most to the end of their segment or of the log."""
        wanted = _decoded(request, ReadLogRequest)
        if wanted.size_bytes < 1:
            raise _bad(f"sizeBytes {wanted.size_bytes} is not positive")
        self._check_inside(wanted.start)
        try:
            data = self._store.read_log(wanted.start, min(wanted.size_bytes, READ_BYTES_MAX))
        except UnreadableError as error:
            text = f"the log can't be read at {wanted.start}: {error}, or take another copy of it"
            raise Refusal(ResponseCode.SYSTEM_ERROR, text) from error
        if self._proof is not None and wanted.challenge:
            return self._proof.reply(wanted.challenge, log_bytes_at(wanted.start), bytes(data))
        return Reply(body=bytes(data))

    def _check_inside(self, start: int) -> None:
        low, high = self._store.physical_min_offset, self._store.physical_max_offset
        if not low <= start < high:
            raise _bad(f"start {start} is outside this log, which goes from {low} to {high}")


def _decoded(request: Command, kind: type[RequestT]) -> RequestT:
    try:
        return decode_json(request.body, kind)
    except JsonError as error:
        raise _bad(f"the body is {error}") from error


def _bad(text: str) -> Refusal:
    return Refusal(ResponseCode.INVALID_PARAMETER, text)
