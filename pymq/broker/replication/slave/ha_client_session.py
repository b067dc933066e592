"""HaClientSession: a slave's side of one HA connection. It appends frames to the log and sends reports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from pymq.broker.replication.history.epoch_file import EpochFile
from pymq.broker.replication.peer_proof import PeerProof, Prove
from pymq.broker.replication.slave.joining import Joined
from pymq.broker.runtime import Runtime
from pymq.config.values import SYNC_FLUSH
from pymq.errors import ProtocolViolation, StoreError
from pymq.wire.ha import PROOF_SIZE_BYTES, FrameReader, encode_report, proven_by_master, proven_content
from pymq.wire.streams import Stream

# The first byte of every log, the highest of the four bytes of the first record's size. With it the slave reports 1 and
# gets the whole log of a RocketMQ master, which answers a report of 0 with its last segment only.
_FIRST_BYTE = b"\0"


class FollowingLog(Protocol):
    """A log that grows by the bytes of its master's: :class:`pymq.store.replica.follower.Follower`."""

    @property
    def end(self) -> int: ...

    def start_at(self, offset: int) -> None: ...

    def append(self, position: int, data: bytes | memoryview) -> None: ...


class FollowedStore(Protocol):
    """The part of the store that a session needs."""

    @property
    def physical_min_offset(self) -> int: ...

    @property
    def synced_offset(self) -> int: ...


@dataclass(frozen=True, slots=True)
class CopiedLog:
    """A slave's log, which its sessions extend. ``request_sync`` starts an fsync of it."""

    follower: FollowingLog
    store: FollowedStore
    epoch_file: EpochFile
    request_sync: Callable[[], None]


class HaClientSession:
    """A :class:`~pymq.wire.streams.StreamHandler`.

    ``joined`` is the result of the joining. If it has no start offset, an empty log begins where the first frame does.
    ``dispatch`` runs after new bytes, ``on_end(session, why)`` once.
    """

    def __init__(
        self,
        runtime: Runtime,
        log: CopiedLog,
        *,
        joined: Joined,
        prove: Prove | None,
        dispatch: Callable[[], None],
        on_end: Callable[[HaClientSession, str], None],
    ) -> None:
        self._follower = log.follower
        self._store = log.store
        self._epoch_file = log.epoch_file
        self._request_sync = log.request_sync
        self._joined = joined
        self._clock = runtime.clock
        self._config = runtime.config
        self._prove = prove
        self._dispatch = dispatch
        self._on_end = on_end
        self._stream: Stream | None = None
        self._reader = FrameReader(runtime.config.mapped_file_size_commit_log_bytes)
        self._proof_missing = PROOF_SIZE_BYTES if joined.challenge else 0
        self._master_proof = b""
        self._reported = 0
        self._is_over = False
        now_ms = runtime.clock.monotonic_ms()
        self.heard_ms = self._sent_ms = now_ms
        self.has_heard = False
        self.began_at = -1  # the log offset where this session began
        self.master_end = -1  # the highest log offset that the master has named

    # -- StreamHandler -----------------------------------------------------------------------------------------------

    def opened(self, stream: Stream) -> None:
        if self._is_over:
            stream.close()
            return
        self._stream = stream
        self.heard_ms = self._clock.monotonic_ms()
        token, start = self._joined.token, self._joined.start
        try:
            if start is not None and self._is_empty:
                self._follower.start_at(start)
                if token is None and start == 0:
                    self._follower.append(0, _FIRST_BYTE)
            self._epoch_file.follow(self._joined.epoch_history, self._follower.end)
        except (StoreError, OSError) as error:
            self.end(f"the log can't be prepared: {error}")
            return
        if token is not None:
            stream.write(encode_report(token) + self._proof(token))
        self.began_at = self._follower.end
        # A RocketMQ master answers a report of 0 with its last segment.
        self._report(0 if start is None and self._is_empty else self._follower.end)

    def _proof(self, token: int) -> bytes:
        """Return the proof that the master asked for, empty for none."""
        nonce, start = self._joined.nonce, self._joined.start
        if not nonce or self._prove is None or start is None:
            return b""
        return self._prove(proven_content(token, start, nonce))

    def received(self, data: bytes) -> None:
        if self._is_over:
            return
        self.heard_ms = self._clock.monotonic_ms()
        if self._proof_missing:
            data = self._take_proof(data)
            if self._proof_missing or self._is_over:
                return
        self.has_heard = True
        try:
            for start, piece in self._reader.feed(data):
                self._take(start, piece)
            self.report()
            self._dispatch()
        except ProtocolViolation as violation:
            self.end(str(violation))
        except (StoreError, OSError) as error:
            self.end(f"what the master sent can't be stored: {error}")

    def _take_proof(self, data: bytes) -> bytes:
        """Take the master's proof from the first bytes it sends; return what follows it."""
        size = self._proof_missing
        self._master_proof += data[:size]
        self._proof_missing -= len(data[:size])
        if not self._proof_missing:
            joined = self._joined
            assert joined.token is not None and joined.start is not None
            content = proven_by_master(joined.token, joined.start, joined.challenge, joined.nonce)
            if not PeerProof(prove=self._prove).is_right(content, self._master_proof):
                self.end(
                    "who is at the master's HA address did not prove to have the servers' credentials: check which "
                    "broker is there, and give both brokers the same innerCredentialsFile"
                )
        return data[size:]

    def writable(self) -> None: ...

    def closed(self, why: str) -> None:
        self._finish(why if self._stream is None else f"the connection to the master ended: {why}")

    # -- the log ---------------------------------------------------------------------------------------------------

    @property
    def _is_empty(self) -> bool:
        return self._follower.end == self._store.physical_min_offset

    def _take(self, start: int, piece: memoryview) -> None:
        if self._joined.start is None and self._is_empty and self._follower.end != start:
            self._begin_at(start)
        end = self._follower.end
        if start != end:
            raise ProtocolViolation("ha-start", f"the master sends from offset {start}, our log ends at {end}")
        if piece:
            self._append(start, piece)
        self.master_end = max(self.master_end, start + len(piece))

    def _begin_at(self, start: int) -> None:
        segment = self._config.mapped_file_size_commit_log_bytes
        if start % segment:
            raise ProtocolViolation(
                "ha-start",
                f"the master begins at offset {start}, which is no multiple of the segment size {segment}: check "
                f"mappedFileSizeCommitLog on the master",
            )
        self._follower.start_at(start)
        self.began_at = start

    def _append(self, start: int, data: memoryview) -> None:
        """Append bytes. An epoch is saved before its first byte is written."""
        while (border := self._epoch_file.next_start) is not None and border < start + len(data):
            if border > start:
                self._follower.append(start, data[: border - start])
                data = data[border - start :]
                start = border
            self._epoch_file.reach(start)
        self._follower.append(start, data)

    # -- reports ---------------------------------------------------------------------------------------------------

    def report(self) -> None:
        """Report the end of our log to the master if it grew. Call it after a sync, too."""
        offset = self._follower.end
        if self._config.flush_disk_type == SYNC_FLUSH:
            synced = self._store.synced_offset
            if synced < offset:
                self._request_sync()
            offset = min(offset, synced)
        if offset > self._reported:
            self._report(offset)

    def _report(self, offset: int) -> None:
        if self._stream is not None:
            self._reported = offset
            self._sent_ms = self._clock.monotonic_ms()
            self._stream.write(encode_report(offset))

    # -- timers ------------------------------------------------------------------------------------------------------

    def tick(self, now_ms: int) -> None:
        """Send a report or a heartbeat if one is due, and close the connection to a silent master."""
        if self._is_over or self._stream is None:
            return
        silence_ms_max = self._config.ha_housekeeping_interval_ms
        if now_ms - self.heard_ms >= silence_ms_max:
            self.end(f"the master sent nothing for {silence_ms_max} ms (haHousekeepingInterval)")
            return
        self.report()
        if now_ms - self._sent_ms >= self._config.ha_send_heartbeat_interval_ms:
            self._report(self._reported)

    def end(self, why: str) -> None:
        """Close the connection."""
        if self._stream is not None:
            self._stream.close()
        self._finish(why)

    def _finish(self, why: str) -> None:
        if not self._is_over:
            self._is_over = True
            self._on_end(self, why)
