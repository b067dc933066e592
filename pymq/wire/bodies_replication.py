"""JSON bodies of PyMQ's own requests between brokers and of what administration sees (docs/replication.md).

What a broker goes by when it joins another has limits in its type: a peer that says anything else is refused before.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from pymq.wire.ha import OFFSET_MAX

PROTOCOL_VERSION = 1
NO_TOKEN = 0  # of a JoinAnswer: the slave must cut its log first
EPOCH_MAX = 1 << 62  # as for offsets: far below 2**63
TEXT_LENGTH_MAX = 300  # of names and addresses: a host name has at most 253 letters, a broker's name 127

# SlaveState.state
CONNECTED, CATCHING_UP, AHEAD = "connected", "catching-up", "ahead"
FOLLOWING = "following"
GONE = "gone"  # a slave that went, and is not back
REFUSED = "refused"  # sent away, and never a slave
_NOT_CONNECTED = (GONE, REFUSED)
# MasterLinkState.state; FOLLOWING and REFUSED, too
WAITING, JOINING, CONNECTING = "waiting", "joining", "connecting"

# RoleRequest.action
FREEZE, RESUME, STEP_DOWN, PROMOTE = "freeze", "resume", "step_down", "promote"
FREEZE_MS_MAX = 60_000  # whoever froze a master may die: nothing stays frozen longer

Offset = Annotated[int, msgspec.Meta(ge=0, le=OFFSET_MAX)]
Epoch = Annotated[int, msgspec.Meta(ge=0, le=EPOCH_MAX)]
Text = Annotated[str, msgspec.Meta(max_length=TEXT_LENGTH_MAX)]


class ReignBody(msgspec.Struct, rename="camel", frozen=True):
    """See :class:`pymq.broker.replication.lineage.Reign`."""

    epoch: Epoch
    start: Offset
    reign_id: Text


class JoinRequest(msgspec.Struct, rename="camel", kw_only=True):
    """PYMQ_JOIN_MASTER (9101): a slave asks where to go on. ``tail_digest``: xxh3-64 in hex of the ``tail_bytes`` bytes
    before ``log_end``. ``log_start``, ``log_end``: physical offsets, equal for an empty log."""

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
    lineage: list[ReignBody] = []


class JoinAnswer(msgspec.Struct, rename="camel", kw_only=True):
    """``token``: a negative number, the first eight bytes the slave sends to ``ha_address``. ``start``: the first
    offset it will be sent. Below its end: it must cut its log there first, and join again; the token is NO_TOKEN.
    ``master_role``: ASYNC_MASTER or SYNC_MASTER, which the slave goes on with should it become the master. ``log_end``:
    how far the master's log goes now."""

    protocol_version: int = PROTOCOL_VERSION
    token: Annotated[int, msgspec.Meta(ge=-OFFSET_MAX, le=NO_TOKEN)]
    ha_address: Text
    start: Offset
    lineage: list[ReignBody] = []
    master_role: Text = ""
    log_end: Annotated[int, msgspec.Meta(ge=-1, le=OFFSET_MAX)] = -1


class MetadataVersions(msgspec.Struct, rename="camel", kw_only=True):
    """PYMQ_COPY_METADATA (9102): table name -> version the slave has (what the master said last; absent: none).

    ``slave``: where it answers, "host:port". ``wait_ms``: how long the master may wait for a change before it answers
    that nothing differs; 0: not at all.
    """

    versions: dict[str, str] = {}
    slave: str = ""
    wait_ms: int = 0


class MetadataTables(msgspec.Struct, rename="camel", kw_only=True):
    """The tables that are not of the version asked with, as they stand in their files, and their versions.

    ``parts``: those that hold only what changed since that version. ``log_end``: how far the log went by then, with
    every message that the tables call delivered. ``more``: the answer is long enough, ask again for the rest.
    ``held_ms``: how long the master waited before it looked.
    """

    versions: dict[str, str] = {}
    tables: dict[str, msgspec.Raw] = {}
    parts: list[str] = []
    log_end: int = -1
    more: bool = False
    held_ms: int = 0


class SlaveState(msgspec.Struct, rename="camel", kw_only=True):
    """One slave as its master sees it. ``broker_id`` -1: unknown (a RocketMQ slave does not say). ``lag_ms``: how long
    the oldest byte it lacks has been in the master's log; ``problem``: empty, or why it does not follow. ``state``:
    connected, catching-up, following, ahead; gone; refused (never a slave: it was sent away lately)."""

    address: str
    broker_id: int = -1
    acked_offset: int = 0
    sent_offset: int = 0
    lag_bytes: int = 0
    lag_messages: int = -1
    lag_ms: int = 0
    in_sync: bool = False
    bytes_per_second: int = 0
    state: str = ""
    problem: str = ""

    @property
    def is_connected(self) -> bool:
        return self.state not in _NOT_CONNECTED


class MasterLinkState(msgspec.Struct, rename="camel", kw_only=True):
    """A slave's own view. ``state``: waiting, joining, connecting, following, refused."""

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


class CutState(msgspec.Struct, rename="camel", kw_only=True):
    """What was cut from this log when it rejoined: offsets from ``start`` to ``end``, kept in ``path``."""

    start: int
    end: int
    message_count: int
    time_ms: int
    path: str
    why: str = ""


class RegainedState(msgspec.Struct, rename="camel", kw_only=True):
    """What a master's log had lost when the broker started, and its slaves at ``sources`` gave: offsets from ``start``
    to ``end``."""

    start: int
    end: int
    sources: list[str]
    time_ms: int


class StatusRequest(msgspec.Struct, rename="camel", kw_only=True):
    """PYMQ_GET_REPLICATION_STATUS (9103), whose body may be empty. ``master``: where the asking broker answers
    ("host:port") when it is a master: of two both see the other then, whatever name servers know."""

    master: str = ""


class ReplicationStatus(msgspec.Struct, rename="camel", kw_only=True):
    """PYMQ_GET_REPLICATION_STATUS (9103). ``former_id``: the id it had before this one, -1 for none.

    ``message_count``: the sum of all queues' ends; its difference between two brokers of one name is the number of
    messages one lacks. ``master_role``: a slave's master's ``role`` when it was last seen. ``rival``: where another
    master of this name answers that can't be overruled, empty for none. ``end_in_doubt``: a slave that may lack
    messages it had confirmed: it was not stopped in order, and has not had all of its master's log since.
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
    confirmed_offset: int = 0
    lineage: list[ReignBody] = []
    required_slaves: int = 0
    in_sync_slaves: int = 0
    degraded: bool = False
    problem: str = ""
    rival: str = ""
    slaves: list[SlaveState] = []
    link: MasterLinkState | None = None
    cuts: list[CutState] = []
    regained: RegainedState | None = None
    end_in_doubt: bool = False

    @property
    def connected_slaves(self) -> int:
        """How many of ``slaves`` are."""
        return sum(slave.is_connected for slave in self.slaves)


class RoleRequest(msgspec.Struct, rename="camel", kw_only=True):
    """PYMQ_CHANGE_ROLE (9104). ``action``: ``promote`` (a slave becomes the master), ``freeze`` (a master takes no more
    writes for ``freeze_ms``), ``resume`` (a freeze is taken back), ``step_down`` (a master becomes a slave of
    ``master_address`` with ``broker_id``). ``epoch``: the sender's knowledge of the target's lineage; another one is
    refused. ``master_role``: what the master before was (ASYNC_MASTER, SYNC_MASTER): a new one promises the same.
    ``force``: do it although bytes may be lost."""

    action: str
    epoch: int = -1
    broker_id: int = -1
    master_address: str = ""
    freeze_ms: int = 0
    master_role: str = ""
    force: bool = False


class RoleAnswer(msgspec.Struct, rename="camel", kw_only=True):
    """How far the broker's log goes now that it did what was asked."""

    log_end: int
    epoch: int


class LogDigestsRequest(msgspec.Struct, rename="camel", kw_only=True):
    """PYMQ_LIST_LOG_DIGESTS (9105): digests of the log from ``start`` to ``end`` (-1: the log's end), one for each
    ``chunk_bytes``; ``with_deletions``: and which of its records count as deleted."""

    start: int = 0
    end: int = -1
    chunk_bytes: int = 1 << 20
    count_max: int = 4096
    with_deletions: bool = False


class LogDigests(msgspec.Struct, rename="camel", kw_only=True):
    """``digests``: xxh3-64 in hex of each chunk from ``start`` on, empty for one that is damaged here; chunks are cut
    at the ends of segments. The broker may answer with fewer than were asked for, at least one. ``deleted_topics``:
    topic -> offset below which its records belong to no queue."""

    broker_name: str
    cluster: str
    segment_size_bytes: int
    log_start: int
    log_end: int
    start: int
    digests: list[str]
    deleted_topics: dict[str, int] = {}


class ReadLogRequest(msgspec.Struct, rename="camel", kw_only=True):
    """PYMQ_READ_LOG (9106): the answer's body are raw bytes of the log, at most to the end of their segment; the broker
    may answer with fewer."""

    start: int
    size_bytes: int
