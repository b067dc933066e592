"""Attacks on what grows with topics, groups, queues, offsets and keys: no turn may grow with it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

import pytest

from pymq.broker.handlers.consumption import QUEUE_TEXT_BYTES_MIN
from pymq.model.javahash import index_key_hash
from pymq.store.index.keyed_records import KEY_WORDS_MAX
from pymq.wire.admin_text import BODY_SIZE_MAX_BYTES
from pymq.wire.codes import RequestCode, ResponseCode
from tests.hostile.harness import SCALE, V2, Health, Peer, Victim, ask, note, sized

SENDS_COUNT = sized(1000, 20_000)
QUEUES_OF_A_TOPIC_MAX = 65_535
QUEUE_COUNT = sized(1500, QUEUES_OF_A_TOPIC_MAX)
OFFSET_COUNT_MAX = sized(20_000, 100_000)  # with a scale of 10 the default, a million
COMMIT_COUNT = sized(30_000, 1_500_000)
LAGGING_GROUP_COUNT = 50 if SCALE else 5
OFFSETS_OF_A_FRAME_MAX = BODY_SIZE_MAX_BYTES // QUEUE_TEXT_BYTES_MIN
MESSAGES_WITH_KEYS = sized(300, 1500)
SLOT_COUNT = 1000
WINDOW = 200
# Twice the limit of a turn: the figure is up to 10 ms too high, and machines differ.
LONGEST_TURN_CPU_S = 0.2


@pytest.fixture(scope="module")
def victim() -> Iterator[Victim]:
    settings = {
        "maxConsumerOffsets": str(OFFSET_COUNT_MAX),
        "maxHashSlotNum": str(SLOT_COUNT),
        "maxIndexNum": "5000000",
    }
    with Victim(None, **settings) as server:  # type: ignore[arg-type]
        yield server


@pytest.fixture(autouse=True)
def no_long_turn(victim: Victim) -> Iterator[None]:
    """After each attack: no piece of work took long."""
    yield
    assert_short_turns(victim)


def assert_short_turns(victim: Victim) -> None:
    """Check the longest piece of work since the victim's start, by CPU time."""
    longest_s = victim.metric("pymq_longest_turn_cpu_seconds")
    note(f"longest turn {longest_s * 1000:.0f} ms")
    assert longest_s < LONGEST_TURN_CPU_S


def codes(peer: Peer, frames: list[bytes]) -> Counter[int]:
    """Send requests some at a time and count the codes of their answers."""
    found: Counter[int] = Counter()
    for start in range(0, len(frames), WINDOW):
        batch = frames[start : start + WINDOW]
        assert peer.send(b"".join(batch))
        for _ in batch:
            answer = peer.receive()
            assert answer is not None
            found[answer.code] += 1
    return found


def make_topic(peer: Peer, topic: str, queue_count: int) -> None:
    ext = {"topic": topic, "defaultTopic": "TBW102", "perm": "6", "topicFilterType": "SINGLE_TAG", "order": "false"}
    ext |= {"readQueueNums": str(queue_count), "writeQueueNums": str(queue_count)}
    assert peer.call(ask(RequestCode.UPDATE_AND_CREATE_TOPIC, ext)).code == ResponseCode.SUCCESS


def make_group(peer: Peer, group: str) -> None:
    body = json.dumps({"groupName": group}).encode()
    assert peer.call(ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)).code == ResponseCode.SUCCESS


def test_sends_to_retry_topics_of_unknown_groups_make_none(victim: Victim) -> None:
    before = victim.metric("rocketmq_topic_number")
    prefixes = ("%RETRY%", "%DLQ%")
    frames = [ask(310, {**V2, "b": f"{prefixes[i % 2]}stranger{i}"}, b"x", opaque=i) for i in range(SENDS_COUNT)]
    with Peer(victim.broker) as peer:
        assert codes(peer, frames) == {ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: SENDS_COUNT}
    assert victim.metric("rocketmq_topic_number") == before


def test_first_sends_to_many_topics_are_answered(victim: Victim) -> None:
    count = min(SENDS_COUNT // 2, 5000)
    frames = [ask(310, {**V2, "b": f"many{i}", "d": "1"}, b"x", opaque=i) for i in range(count)]
    with Peer(victim.broker) as peer:
        assert codes(peer, frames) == {ResponseCode.SUCCESS: count}


def offset_count(peer: Peer) -> int:
    """Return how many offsets of groups the broker has."""
    whole = peer.call(ask(RequestCode.GET_ALL_CONSUMER_OFFSET))
    assert whole.code == ResponseCode.SUCCESS
    return sum(map(len, json.loads(whole.body)["offsetTable"].values()))


def test_commits_end_at_the_limit_of_offsets(victim: Victim) -> None:
    queue_count = 10_000
    with Peer(victim.broker) as peer:
        make_topic(peer, "committed", queue_count)
        answers: Counter[int] = Counter()
        with Health(victim.broker) as health:
            for number in range(COMMIT_COUNT // queue_count):
                make_group(peer, f"committer{number:04}")
                ext = {"topic": "committed", "consumerGroup": f"committer{number:04}", "commitOffset": "0"}
                answers += codes(peer, [ask(15, {**ext, "queueId": str(i)}, opaque=i) for i in range(queue_count)])
        health.assert_served()
        refused_count = COMMIT_COUNT - OFFSET_COUNT_MAX
        assert answers == {ResponseCode.SUCCESS: OFFSET_COUNT_MAX, ResponseCode.NO_PERMISSION: refused_count}
        assert offset_count(peer) == OFFSET_COUNT_MAX


@pytest.mark.slow
def test_answers_about_many_queues_let_others_be_served(victim: Victim) -> None:
    with Peer(victim.broker) as peer:
        make_group(peer, "reader")
        with Health(victim.broker) as health:
            for number in range(-(-QUEUE_COUNT // QUEUES_OF_A_TOPIC_MAX)):
                topic, count = f"wide{number}", min(QUEUE_COUNT, QUEUES_OF_A_TOPIC_MAX)
                make_topic(peer, topic, count)
                frames = [ask(310, {**V2, "b": topic, "e": str(i)}, b"x", opaque=i) for i in range(count)]
                assert codes(peer, frames) == {ResponseCode.SUCCESS: count}
                for code, ext in (
                    (RequestCode.GET_TOPIC_STATS_INFO, {"topic": topic}),
                    (RequestCode.GET_CONSUME_STATS, {"topic": topic, "consumerGroup": "reader"}),
                    (RequestCode.QUERY_CONSUME_TIME_SPAN, {"topic": topic, "group": "reader"}),
                ):
                    assert peer.call(ask(code, ext)).code == ResponseCode.SUCCESS
            lag = peer.call(ask(RequestCode.GET_BROKER_CONSUME_STATS, {"isOrder": "false"}))
        health.assert_served()
        # The lag of the offsets that the test above has left is one answer.
        if offset_count(peer) <= OFFSETS_OF_A_FRAME_MAX:
            assert lag.code == ResponseCode.SUCCESS
        else:
            assert lag.code == ResponseCode.SYSTEM_ERROR
            assert "ask for each group" in (lag.remark or "")


def test_the_lag_of_many_topics_and_groups_lets_others_be_served() -> None:
    """Each group has an offset in a queue of each topic."""
    topics = [f"lagging{number}" for number in range(sized(40, 2000))]
    with Victim(maxTopics=str(20 + len(topics))) as server:
        with Peer(server.broker) as peer:
            sends = [ask(310, {**V2, "b": topic, "d": "1"}, b"x", opaque=at) for at, topic in enumerate(topics)]
            assert codes(peer, sends) == {ResponseCode.SUCCESS: len(topics)}
            for number in range(LAGGING_GROUP_COUNT):
                make_group(peer, f"behind{number}")
                ext = {"consumerGroup": f"behind{number}", "commitOffset": "0", "queueId": "0"}
                answers = codes(peer, [ask(15, {**ext, "topic": topic}, opaque=at) for at, topic in enumerate(topics)])
                assert answers == {ResponseCode.SUCCESS: len(topics)}
            with Health(server.broker) as health:
                assert peer.call(ask(RequestCode.GET_BROKER_CONSUME_STATS, {"isOrder": "false"})).code == 0
        assert_short_turns(server)
        health.assert_served()


@pytest.mark.slow
def test_a_look_up_in_a_slot_full_of_keys_ends(victim: Victim) -> None:
    slot = index_key_hash("keys", "attacked") % SLOT_COUNT
    crowd = [key for key in map(str, range(10**6)) if index_key_hash("keys", key) % SLOT_COUNT == slot][:1000]
    assert len(crowd) > KEY_WORDS_MAX
    properties = "KEYS\x01" + " ".join(crowd) + "\x02"
    frames = [ask(310, {**V2, "b": "keys", "i": properties}, b"x", opaque=i) for i in range(MESSAGES_WITH_KEYS)]
    wanted = {"topic": "keys", "maxNum": "32", "beginTimestamp": "0", "endTimestamp": str(2**62)}
    with Peer(victim.broker) as peer:
        make_topic(peer, "keys", 4)
        assert codes(peer, frames) == {ResponseCode.SUCCESS: MESSAGES_WITH_KEYS}
        missing = peer.call(ask(RequestCode.QUERY_MESSAGE, {**wanted, "key": "attacked"}))
        assert missing.code in (ResponseCode.QUERY_NOT_FOUND, ResponseCode.SYSTEM_ERROR)
        assert peer.call(ask(RequestCode.QUERY_MESSAGE, {**wanted, "key": crowd[0]})).code == ResponseCode.SUCCESS
        beyond = peer.call(ask(RequestCode.QUERY_MESSAGE, {**wanted, "key": crowd[-1]}))
        assert beyond.code != ResponseCode.SUCCESS
