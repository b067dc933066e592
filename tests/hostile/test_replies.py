"""Attacks with replies: requesters that never read, never answer, or are not there."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from pymq.net.limits import ServerLimits
from tests.hostile.harness import MIB, V2, Health, Peer, Victim, ask, eventually, sized

BUDGET_BYTES = 64 * MIB
ABOVE_BYTES_MAX = 64 * MIB
TURN_CPU_S_MAX = 0.5
REPLY = 325
BODY_BYTES = MIB // 2


@pytest.fixture(scope="module")
def victim() -> Iterator[Victim]:
    with Victim(memoryBudgetBytes=str(BUDGET_BYTES), storeReplyMessageEnable="false") as server:
        yield server


def requester(victim: Victim, client_id: str, receive_buffer_bytes: int | None = None) -> Peer:
    """Return a connection that is known as a producer with that id, and reads nothing more."""
    peer = Peer(victim.broker, receive_buffer_bytes=receive_buffer_bytes)
    beat = {"clientID": client_id, "producerDataSet": [{"groupName": "requesters"}]}
    assert peer.call(ask(34, {}, json.dumps(beat).encode())).code == 0
    return peer


def reply(client_id: str, body: bytes, opaque: int = 0) -> bytes:
    properties = f"CORRELATION_ID\x01c\x02REPLY_TO_CLIENT\x01{client_id}\x02MSG_TYPE\x01reply\x02"
    return ask(REPLY, {**V2, "b": "DefaultCluster_REPLY_TOPIC", "e": "0", "i": properties}, body, opaque=opaque)


def test_replies_to_a_requester_that_reads_nothing_are_refused_at_once(victim: Victim) -> None:
    before = victim.rss_bytes()
    victim.reset_peak()
    with Health(victim.broker) as health, requester(victim, "deaf", 4096), Peer(victim.broker) as replier:
        count = sized(200, 200)
        answers = 0
        for number in range(count):
            assert replier.send(reply("deaf", bytes(BODY_BYTES), number))
        # What the requester's connection took before it was behind is answered after 10 seconds.
        while answers < count // 2:
            answer = replier.receive()
            assert answer is not None and answer.code == 1, answer
            assert "deaf" in (answer.remark or "")
            answers += 1
    assert victim.peak_rss_bytes() - before <= BUDGET_BYTES + ABOVE_BYTES_MAX
    health.assert_served()
    assert victim.metric("pymq_longest_turn_cpu_seconds") < TURN_CPU_S_MAX
    eventually(lambda: victim.held_bytes() == 0)


def test_pushes_that_wait_for_one_requester_are_bounded(victim: Victim) -> None:
    """It reads what it gets and answers nothing: replies beyond the limit are refused at once."""
    limit = ServerLimits().pending_asks_max
    with requester(victim, "mute") as mute, Peer(victim.broker) as replier:
        for number in range(limit + 10):
            assert replier.send(reply("mute", b"x", number))
        refused = [replier.receive() for _ in range(10)]
        assert {answer.code for answer in refused if answer is not None} == {1}
        assert {answer.opaque for answer in refused if answer is not None} == set(range(limit, limit + 10))
        pushed = [mute.receive() for _ in range(limit)]
        assert all(one is not None and one.code == 326 for one in pushed)


def test_a_requester_that_leaves_ends_the_wait_of_its_repliers(victim: Victim) -> None:
    with Peer(victim.broker) as replier:
        with requester(victim, "leaver") as leaver:
            replier.send(reply("leaver", b"x", 7))
            assert leaver.receive() is not None
        answer = replier.receive()
        assert answer is not None and (answer.code, answer.opaque) == (1, 7)
        assert replier.call(reply("leaver", b"x")).code == 1, "nothing is left of it"
