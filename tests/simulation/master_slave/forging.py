"""A liar's words about epochs, logs and offsets: bodies of replication requests, made from real ones where it can.

Pure functions of a random generator and of what the liar has learned by asking.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import msgspec

from pymq.wire.bodies_replication import (
    EpochEntryBody,
    HaClientState,
    JoinAnswer,
    JoinRequest,
    LogDigests,
    MetadataTables,
    MetadataVersions,
    ReplicationStatus,
)
from pymq.wire.ha import OFFSET_MAX

HUGE_EPOCHS = (2**31, 2**60, 2**61, 2**62)
ID_MAX = 9
NO_BODIES = (b"", b"{", b"[]", b"null", b'{"epoch":"x"}', b"[" * 10_000, b"\xff\xfe", b"{}")


@dataclass
class Facts:
    """What a liar knows: its own names, the addresses of others, and the last true status of each broker."""

    cluster: str
    broker_name: str
    address: str
    ha_address: str
    brokers: list[str]
    statuses: dict[str, ReplicationStatus] = field(default_factory=dict)

    def any_status(self, rng: random.Random) -> ReplicationStatus | None:
        """Return the true status of one broker; None before the liar knows any."""
        return self.statuses[rng.choice(sorted(self.statuses))] if self.statuses else None

    def newest(self) -> ReplicationStatus | None:
        """Return the true status with the newest epoch and the longest log."""
        return max(self.statuses.values(), key=lambda status: (_epoch(status), status.log_end), default=None)


def _epoch(status: ReplicationStatus) -> int:
    return status.epoch_history[-1].epoch if status.epoch_history else 0


def an_id(rng: random.Random) -> str:
    return f"{rng.getrandbits(64):016x}"


def an_offset(rng: random.Random, facts: Facts) -> int:
    """Return an offset: an end of a log or near one, its start, or an extreme."""
    status = facts.any_status(rng)
    ends = [status.log_end, status.log_end // 2, status.log_end + 1, status.log_start] if status is not None else []
    return rng.choice([0, 1, 65_536, OFFSET_MAX, OFFSET_MAX + 1, 2**62, -1, rng.getrandbits(20), *ends, *ends])


def plausible_offset(rng: random.Random, facts: Facts) -> int:
    """Return an offset that a log may have."""
    return min(max(an_offset(rng, facts), 0), OFFSET_MAX)


def a_history(rng: random.Random, facts: Facts) -> list[EpochEntryBody]:
    """Return an epoch history: invented, or a true one with invented entries, or a true one changed."""
    real = facts.newest()
    true = list(real.epoch_history) if real is not None else []
    end = real.log_end if real is not None else 0
    last = true[-1].epoch if true else 0
    kind = rng.randrange(8)
    if kind == 0:
        return [EpochEntryBody(rng.choice((*HUGE_EPOCHS, 1, 2, last + 1)), rng.choice((0, end)), an_id(rng))]
    if kind == 1:
        return [*true, EpochEntryBody(rng.choice(HUGE_EPOCHS), end, an_id(rng))]
    if kind in (2, 3):
        return [*true, EpochEntryBody(last + rng.choice((1, 1, 2, 999, 1000, 1001)), end, an_id(rng))]
    if kind == 4:  # the same epoch, begun by another master
        return [*true[:-1], EpochEntryBody(last, true[-1].start if true else 0, an_id(rng))]
    if kind == 5:  # the epoch begins long before
        return [*true[:1], EpochEntryBody(last + 1, rng.choice((0, end // 2)), an_id(rng))]
    if kind == 6:
        return [EpochEntryBody(number, plausible_offset(rng, facts), an_id(rng)) for number in range(1, 300)]
    return true if rng.random() < 0.5 else []


def a_status(rng: random.Random, facts: Facts) -> bytes:
    """Return an answer to a request for the replication status."""
    if rng.random() < 0.1:
        return rng.choice(NO_BODIES)
    real = facts.newest()
    is_master = rng.random() < 0.7
    fields: dict[str, Any] = {
        "cluster": facts.cluster if rng.random() < 0.9 else "another",
        "broker_name": facts.broker_name if rng.random() < 0.9 else "another",
        "broker_id": 0 if is_master else rng.randrange(1, ID_MAX),
        "former_id": rng.randrange(-1, ID_MAX),
        "role": rng.choice(("ASYNC_MASTER", "SYNC_MASTER")) if is_master else "SLAVE",
        "master_role": rng.choice(("", "ASYNC_MASTER", "SYNC_MASTER")),
        "address": rng.choice((facts.address, *facts.brokers)),
        "ha_address": facts.ha_address,
        "segment_size_bytes": real.segment_size_bytes if real is not None else 65_536,
        "log_end": plausible_offset(rng, facts),
        "message_count": rng.getrandbits(20),
        "epoch_history": a_history(rng, facts),
        "second_master": rng.choice(("", "", *facts.brokers)),
        "end_in_doubt": rng.random() < 0.2,
    }
    if not is_master:
        fields["ha_client"] = HaClientState(master_address=rng.choice((facts.address, *facts.brokers)))
    return msgspec.json.encode(ReplicationStatus(**fields))


def a_join_answer(rng: random.Random, facts: Facts, request: bytes) -> bytes:
    """Return an answer to a slave that asks to join the liar."""
    if rng.random() < 0.1:
        return rng.choice(NO_BODIES)
    try:
        asked = msgspec.json.decode(request, type=JoinRequest)
    except msgspec.MsgspecError:
        return b"{}"
    places = [0, asked.log_start, asked.log_end, asked.log_end // 2, max(asked.log_end - 100, 0)]
    answer = JoinAnswer(
        token=rng.choice((0, 0, -1, -rng.getrandbits(40))),
        ha_address=rng.choice((facts.ha_address, *(_ha_of(address) for address in facts.brokers))),
        start=rng.choice((*places, plausible_offset(rng, facts))),
        epoch_history=rng.choice((asked.epoch_history, a_history(rng, facts))),
        master_role=rng.choice(("", "ASYNC_MASTER", "SYNC_MASTER")),
        log_end=rng.choice((-1, plausible_offset(rng, facts))),
    )
    return msgspec.json.encode(answer)


def a_join_request(rng: random.Random, facts: Facts) -> bytes:
    """Return a request to join a master: under the liar's or another broker's address, with any log."""
    if rng.random() < 0.1:
        return rng.choice(NO_BODIES)
    real = facts.any_status(rng)
    segment = real.segment_size_bytes if real is not None else 65_536
    start = rng.choice((0, 0, 0, segment))
    end = max(start, plausible_offset(rng, facts))
    request = JoinRequest(
        cluster=facts.cluster,
        broker_name=facts.broker_name if rng.random() < 0.9 else "another",
        broker_id=rng.randrange(-1, ID_MAX),
        address=rng.choice((facts.address, facts.address, *facts.brokers, "no address")),
        segment_size_bytes=segment,
        log_start=start,
        log_end=end,
        tail_bytes=min(end - start, 65_536) if rng.random() < 0.8 else rng.getrandbits(16),
        tail_digest=an_id(rng),
        full_sync=rng.random() < 0.5,
        epoch_history=a_history(rng, facts),
    )
    return msgspec.json.encode(request)


def a_table_request(rng: random.Random, facts: Facts) -> bytes:
    """Return a request for a master's tables, as if one of its slaves sent it."""
    versions = {"topics": an_id(rng), "no such table": "1"} if rng.random() < 0.5 else {}
    slave = rng.choice((facts.address, *facts.brokers))
    return msgspec.json.encode(MetadataVersions(versions=versions, slave=slave, wait_ms=rng.choice((0, 10_000, 2**40))))


def some_tables(rng: random.Random, facts: Facts) -> bytes:
    """Return an answer to a slave that asks the liar for tables: topics deleted, offsets moved, roles changed."""
    deleted = msgspec.json.encode({"deletedTopics": {"Orders": OFFSET_MAX}})
    offsets = msgspec.json.encode({"offsetTable": {"Orders@G0": {"0": 2**40}}})
    tables = {
        "deletedTopics": msgspec.Raw(deleted),
        "consumerOffset": msgspec.Raw(offsets),
        "topics": msgspec.Raw(b'{"topicConfigTable":{}}'),
        "masterRole": msgspec.Raw(b'"ASYNC_MASTER"'),
    }
    chosen = {name: raw for name, raw in tables.items() if rng.random() < 0.5}
    answer = MetadataTables(
        versions={name: an_id(rng) for name in chosen}, tables=chosen, log_end=plausible_offset(rng, facts)
    )
    return msgspec.json.encode(answer)


def some_digests(rng: random.Random, facts: Facts) -> bytes:
    """Return an answer to a broker that compares its log with the liar's."""
    end = plausible_offset(rng, facts)
    digests = [an_id(rng) for _ in range(rng.randrange(1, 5))]
    answer = LogDigests(
        broker_name=facts.broker_name, cluster=facts.cluster, segment_size_bytes=65_536, log_start=0, log_end=end,
        start=rng.choice((0, end)), digests=digests, deleted_topics={"Orders": end},
    )  # fmt: skip
    return msgspec.json.encode(answer)


def _ha_of(address: str) -> str:
    host, _, port = address.rpartition(":")
    return f"{host}:{int(port) + 1}"
