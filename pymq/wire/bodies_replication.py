"""JSON bodies of PyMQ's own requests between brokers, and of the replication state that administration shows.

docs/replication-protocol.md describes the protocol. Fields that a joining broker acts on carry their limits in the
type, so decoding refuses a value outside them.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from pymq.wire.bodies_raft import RaftGroupState
from pymq.wire.ha import NONCE_SIZE_BYTES, OFFSET_MAX

PROTOCOL_VERSION = 1
NO_TOKEN = 0  # in a JoinAnswer: the slave must truncate its log first
EPOCH_MAX = 1 << 62  # as for offsets: far below 2**63
TEXT_LENGTH_MAX = 300  # for names and addresses: a host name has at most 253 letters, a broker name 127

# SlaveState.state
CONNECTED, CATCHING_UP, AHEAD = "connected", "catching-up", "ahead"
FOLLOWING = "following"
GONE = "gone"  # a slave that disconnected and has not come back
REFUSED = "refused"  # a peer that was rejected and never became a slave
_NOT_CONNECTED = (GONE, REFUSED)
# HaClientState.state; FOLLOWING and REFUSED occur there, too
WAITING, JOINING, CONNECTING = "waiting", "joining", "connecting"

# RoleRequest.action
FENCE, RESUME, STEP_DOWN, PROMOTE, TRUNCATE = "fence", "resume", "step_down", "promote", "truncate"
FENCE_MS_MAX = 60_000  # a limit, because the broker that asked for the fence may die

Offset = Annotated[int, msgspec.Meta(ge=0, le=OFFSET_MAX)]
Epoch = Annotated[int, msgspec.Meta(ge=0, le=EPOCH_MAX)]
Text = Annotated[str, msgspec.Meta(max_length=TEXT_LENGTH_MAX)]


class EpochEntryBody(msgspec.Struct, rename="camel", frozen=True):
    """See :class:`pymq.broker.replication.history.epoch_history.EpochEntry`."""

    epoch: Epoch
    start: Offset
    epoch_id: Text


Nonce = Annotated[str, msgspec.Meta(pattern=f"^([0-9a-f]{{{2 * NONCE_SIZE_BYTES}}})?$")]
JOIN_PROOF = "proof"  # the field of the answer's header that has the master's proof, in hex


class JoinRequest(msgspec.Struct, rename="camel", kw_only=True):
    """PYMQ_JOIN_MASTER (9101): a slave asks where to continue.

    ``log_start`` and ``log_end`` are physical offsets, equal for an empty log. ``tail_digest`` is the xxh3-64, in hex,
    of the ``tail_bytes`` bytes before ``log_end``. A ``challenge`` (32 bytes in hex) asks the master for two proofs of
    the servers' credentials: of its answer (:func:`pymq.wire.ha.proven_answer`, in the field JOIN_PROOF), and before
    the first frame (:func:`pymq.wire.ha.proven_by_master`).
    """

    protocol_version: int = PROTOCOL_VERSION
    cluster: Text
    broker_name: Text
    broker_id: int
    address: Text
    segment_size_bytes: int
    log_start: int
    log_end: int
    tail_bytes: int = 0
    tail_digest: Text = ""
    full_sync: bool = False
    epoch_history: list[EpochEntryBody] = []
    challenge: Nonce = ""


class JoinAnswer(msgspec.Struct, rename="camel", kw_only=True):
    """The master's answer to a JoinRequest.

    ``token`` is a negative number, the first eight bytes that the slave sends to ``ha_address``. ``start`` is the first
    offset the master will send. When ``start`` is below the slave's log end, the token is NO_TOKEN: the slave first
    truncates its log at ``start`` and joins again. ``master_role`` is ASYNC_MASTER or SYNC_MASTER; a slave that becomes
    the master keeps that role. ``log_end`` is the end of the master's log now. ``nonce`` (32 bytes in hex) asks for a
    proof after the token, see :func:`pymq.wire.ha.proven_content`; empty asks for none.
    """

    protocol_version: int = PROTOCOL_VERSION
    token: Annotated[int, msgspec.Meta(ge=-OFFSET_MAX, le=NO_TOKEN)]
    ha_address: Text
    start: Offset
    epoch_history: list[EpochEntryBody] = []
    master_role: Text = ""
    log_end: Annotated[int, msgspec.Meta(ge=-1, le=OFFSET_MAX)] = -1
    nonce: Nonce = ""


class MetadataVersions(msgspec.Struct, rename="camel", kw_only=True):
    """PYMQ_COPY_METADATA (9102): table name -> version the slave has, as the master last gave it; absent for none.

    ``slave`` is the slave's own address, "host:port". ``wait_ms`` is how long the master may wait for a change before
    it answers that nothing differs; 0 asks for an immediate answer.
    """

    versions: dict[str, str] = {}
    slave: str = ""
    wait_ms: int = 0


class MetadataTables(msgspec.Struct, rename="camel", kw_only=True):
    """The tables whose version differs from the one in the request, as their files hold them, and their versions.

    ``parts`` names the tables that hold only what changed since the requested version. ``log_end`` is the log's end at
    that time; every message that the tables count as delivered lies below it. ``more`` is true when the answer reached
    its size limit and the slave must ask for the rest. ``held_ms`` is how long the master waited before it read the
    tables. ``fence`` is the number of the write fence that it had set then, 0 for none.
    """

    versions: dict[str, str] = {}
    tables: dict[str, msgspec.Raw] = {}
    parts: list[str] = []
    log_end: int = -1
    more: bool = False
    held_ms: int = 0
    fence: int = 0


class SlaveState(msgspec.Struct, rename="camel", kw_only=True):
    """One slave as its master sees it.

    ``broker_id`` is -1 for a RocketMQ slave, which does not send it. ``lag_ms`` is how long the oldest byte that the
    slave lacks has been in the master's log. ``problem`` says why the slave does not follow, and is empty otherwise.
    ``state`` is connected, catching-up, following, ahead, gone, or refused (a peer that was rejected lately and never
    was a slave). ``is_unproven``: the master of a secured group lets it follow by its host alone.
    """

    address: str
    broker_id: int = -1
    ack_offset: int = 0
    sent_offset: int = 0
    lag_bytes: int = 0
    lag_messages: int = -1
    lag_ms: int = 0
    in_sync: bool = False
    bytes_per_second: int = 0
    state: str = ""
    problem: str = ""
    is_unproven: bool = False

    @property
    def is_connected(self) -> bool:
        return self.state not in _NOT_CONNECTED


class HaClientState(msgspec.Struct, rename="camel", kw_only=True):
    """A slave's view of its master. ``state``: waiting, joining, connecting, following, refused.

    ``truncate_to`` is the offset where the log must be truncated before it can follow, when only the operator may allow
    that; -1 otherwise. ``metadata_fence`` is the number of the master's write fence whose tables this slave has, 0 for
    none. ``other_log`` is why the last master that answered found that this log is not a part of its own;
    empty once it has joined.
    """

    master_address: str = ""
    ha_address: str = ""
    state: str = WAITING
    problem: str = ""
    master_log_end: int = -1
    lag_bytes: int = -1
    lag_messages: int = -1
    lag_ms: int = -1
    bytes_per_second: int = 0
    last_heard_ms: int = -1
    metadata_age_ms: int = -1
    metadata_fence: int = 0
    truncate_to: int = -1
    other_log: str = ""


class TruncationState(msgspec.Struct, rename="camel", kw_only=True):
    """The tail that was truncated from this log when it rejoined: offsets ``start`` to ``end``, kept in ``path``."""

    start: int
    end: int
    message_count: int
    time_ms: int
    path: str
    why: str = ""


class RecoveredTailState(msgspec.Struct, rename="camel", kw_only=True):
    """The tail that a master's log lacked when the broker started, and that its slaves at ``sources`` returned: offsets
    ``start`` to ``end``."""

    start: int
    end: int
    sources: list[str]
    time_ms: int


class StatusRequest(msgspec.Struct, rename="camel", kw_only=True):
    """PYMQ_GET_REPLICATION_STATUS (9103); the body may be empty.

    ``master`` is the asking broker's address ("host:port") when it is a master. Two masters of one name detect each
    other by it, without a name server.
    """

    master: str = ""


class ReplicationStatus(msgspec.Struct, rename="camel", kw_only=True):
    """PYMQ_GET_REPLICATION_STATUS (9103). ``former_id`` is the broker's previous id, -1 for none.

    ``message_count`` is the sum of all queue ends: its difference between two brokers of one name is the number of
    messages that one of them lacks. ``master_role`` is, on a slave, the master's last known ``role``. ``second_master``
    is the address of a second master of this name that can't be overruled, empty for none. ``end_in_doubt`` is true for
    a slave that may lack messages it had confirmed: it stopped uncleanly and has not caught up with its master since.
    ``raft`` is None for a broker that is in no Raft group. ``in_sync_slaves`` is -1 where a broker does not say which
    slaves it has, as RocketMQ 4 does.
    """

    protocol_version: int = PROTOCOL_VERSION
    cluster: str
    broker_name: str
    broker_id: int
    former_id: int = -1
    role: str  # ASYNC_MASTER, SYNC_MASTER, SLAVE
    master_role: str = ""
    address: str
    ha_address: str = ""
    segment_size_bytes: int = 0
    log_start: int = 0
    log_end: int = 0
    message_count: int = 0
    confirm_offset: int = 0
    epoch_history: list[EpochEntryBody] = []
    required_slaves: int = 0
    in_sync_slaves: int = 0
    degraded: bool = False
    problem: str = ""
    second_master: str = ""
    slaves: list[SlaveState] = []
    ha_client: HaClientState | None = None
    truncations: list[TruncationState] = []
    recovered_tail: RecoveredTailState | None = None
    end_in_doubt: bool = False
    raft: RaftGroupState | None = None

    @property
    def connected_slaves(self) -> int:
        """The number of ``slaves`` that are connected."""
        return sum(slave.is_connected for slave in self.slaves)

    @property
    def knows_slaves(self) -> bool:
        """Whether the broker says which slaves it has."""
        return self.in_sync_slaves >= 0


class RoleRequest(msgspec.Struct, rename="camel", kw_only=True):
    """PYMQ_CHANGE_ROLE (9104). ``action`` is one of:

    - ``promote``: a slave becomes the master;
    - ``fence``: a master takes no writes for ``fence_ms``;
    - ``resume``: lifts that write fence;
    - ``step_down``: a master becomes a slave of ``master_address`` with ``broker_id``;
    - ``truncate``: a slave that waits for the operator truncates its log to end at ``truncate_to``, once.

    ``epoch`` is the last epoch the sender knows of the target; the target refuses any other. ``master_role`` is the
    role of the previous master (ASYNC_MASTER, SYNC_MASTER), which the new one takes over. ``force`` accepts that bytes
    may be lost.
    """

    action: str
    epoch: int = -1
    broker_id: int = -1
    master_address: str = ""
    fence_ms: int = 0
    master_role: str = ""
    force: bool = False
    truncate_to: int = -1


class RoleAnswer(msgspec.Struct, rename="camel", kw_only=True):
    """The end of the broker's log, its epoch, and the number of its write fence, 0 for none.

    All are as they are after it did what was asked.
    """

    log_end: int
    epoch: int
    fence: int = 0


class LogDigestsRequest(msgspec.Struct, rename="camel", kw_only=True):
    """PYMQ_LIST_LOG_DIGESTS (9105): digests of the log from ``start`` to ``end`` (-1: the log's end), one per
    ``chunk_bytes``. ``with_deletions`` also asks which of its records count as deleted."""

    start: int = 0
    end: int = -1
    chunk_bytes: int = 1 << 20
    count_max: int = 4096
    with_deletions: bool = False


class LogDigests(msgspec.Struct, rename="camel", kw_only=True):
    """Digests of log chunks from ``start`` on: xxh3-64 in hex, empty for a chunk that is damaged here.

    Chunks end at segment ends. The broker may answer with fewer than the request asked for, but at least one.
    ``deleted_topics``: topic -> offset below which its records belong to no queue.
    """

    broker_name: str
    cluster: str
    segment_size_bytes: int
    log_start: int
    log_end: int
    start: int
    digests: list[str]
    deleted_topics: dict[str, int] = {}


class ReadLogRequest(msgspec.Struct, rename="camel", kw_only=True):
    """PYMQ_READ_LOG (9106): the answer's body is raw bytes of the log, at most to the end of their segment.

    The broker may answer with fewer than ``size_bytes``. With a ``challenge`` (32 bytes in hex) a node of a Raft group
    proves its answer (:mod:`pymq.broker.raft.answer_proof`).
    """

    start: int
    size_bytes: int
    challenge: Nonce = ""
