"""Expiry of lite topics: what is old and read goes with its offsets, and what some group has not read stays."""

from __future__ import annotations

import pytest

from pymq.broker.pop import lite_expiry
from pymq.broker.pop.lite_expiry import CHECK_PERIOD_MS, EXPIRATION_MIN_MS
from tests.broker.handlers.test_lite_pops import NOTHING, LitePops
from tests.broker.world import ROOT, World

HOUR_MS = 3_600_000  # the expiration of P


class Expiring(LitePops):
    """The parent P, whose lite topics expire after an hour, and Q, whose never do."""

    def read(self, *lites: str, client: str = "c", group: str = "g") -> None:
        """Have a group read all of these lite topics."""
        assert self.control("COMPLETE_ADD", *lites, client=client, group=group)[0] == 0
        while (found := self.pop(client, consumerGroup=group)).code != NOTHING:
            for number in range(len(found.messages)):
                assert self.ack(found, number, consumerGroup=group) == 0

    def passes(self, count: int = 2) -> None:
        """Let whole passes run."""
        expiry = self.world.parts.pop.lite_expiry
        for _ in range(count):
            self.world.clock.advance(CHECK_PERIOD_MS)
            for _ in range(50):
                expiry.tick()
        self.turn()

    def is_known(self, lite: str, parent: str = "P") -> bool:
        return self.world.parts.store.lights.has(parent, lite)

    def without_light_files(self, *, killed: bool) -> Expiring:
        """Return a broker that was started without its files of light queues, and makes them again from the log."""
        files = self.world.files
        if killed:
            files = files.after_kill()
        else:
            self.world.parts.close()
        files.remove_tree(f"{ROOT}/lightqueue")
        return Expiring(World(files, self.world.clock))


def test_what_is_old_and_read_goes_with_its_offsets() -> None:
    p = Expiring()
    p.fill("old", "m0", "m1")
    p.send("other", topic="Q")
    p.read("old")
    p.world.clock.advance(HOUR_MS - 2 * CHECK_PERIOD_MS)
    p.fill("young", "y0")
    p.read("young")
    p.passes()
    assert p.is_known("old"), "not before its time"
    p.passes()
    assert not p.is_known("old") and p.committed("old") == -1
    assert p.is_known("young") and p.committed("young") == 1 and p.is_known("other", "Q")
    p.subscribe("old")
    assert p.pop().code == NOTHING
    p.fill("old", "m2")
    assert p.ends("old").min_offset == 2, "the next message has the next offset"
    found = p.pop()
    assert found.bodies == ["m2"] and p.ack(found) == 0 and p.committed("old") == 3


@pytest.mark.parametrize("read", [0, 1])
def test_what_one_group_has_not_read_stays(read: int) -> None:
    p = Expiring()
    p.put_group("h")
    p.fill("a", "m0", "m1")
    p.read("a")
    p.control("COMPLETE_ADD", "a", client="d", group="h")
    for _ in range(read):
        p.ack(p.pop("d", consumerGroup="h", count=1), consumerGroup="h")
    p.world.clock.advance(10 * HOUR_MS)
    p.passes(4)
    assert p.is_known("a") and p.committed("a") == 2 and p.committed("a", "h") == read
    assert p.control("COMPLETE_ADD", "a", client="d", group="h")[0] == 0
    assert p.pop("d", consumerGroup="h").bodies == ["m0", "m1"][read:]


def test_without_groups_age_alone_counts() -> None:
    p = Expiring()
    p.put_group("g", bind="Q")
    p.fill("a", "m0")
    p.world.clock.advance(HOUR_MS)
    p.passes()
    assert not p.is_known("a")


def test_nothing_expires_soon_after_a_start_nor_before_the_least_age() -> None:
    p = Expiring()
    p.fill("a", "m0")
    p.read("a")
    p.world.clock.advance(EXPIRATION_MIN_MS - CHECK_PERIOD_MS - 1)
    p.passes(1)
    assert p.world.parts.pop.lite_expiry._pass is None and p.is_known("a")


@pytest.mark.parametrize("killed", [False, True])
def test_a_lite_topic_that_a_start_knows_again_is_not_read_again(killed: bool) -> None:
    p = Expiring()
    p.put_group("h")
    p.fill("a", "m0")
    p.fill("unread", "u0")
    p.read("a")
    p.read("a", client="d", group="h")
    p.read("unread")
    p.world.clock.advance(HOUR_MS)
    p.passes()
    assert not p.is_known("a") and p.is_known("unread")
    p.wait(6_000)
    p = p.without_light_files(killed=killed)
    assert p.is_known("a")
    for client, group, bodies in (("c", "g", []), ("d", "h", ["u0"])):
        assert p.control("COMPLETE_ADD", "a", "unread", client=client, group=group)[0] == 0
        assert p.pop(client, consumerGroup=group).bodies == bodies
    p.put_group("new")
    assert p.control("COMPLETE_ADD", "unread", client="n", group="new")[0] == 0
    assert p.pop("n", consumerGroup="new").bodies == ["u0"], "a new group begins at the oldest message"


def test_a_message_that_comes_between_two_passes_saves_its_lite_topic() -> None:
    p = Expiring()
    p.fill("a", "m0")
    p.read("a")
    p.world.clock.advance(HOUR_MS)
    p.passes(1)
    p.fill("a", "m1")
    p.passes(1)
    assert p.is_known("a") and p.committed("a") == 1
    assert p.pop().bodies == ["m1"]


@pytest.mark.parametrize("revived_after", [0, 1])
def test_old_messages_that_a_group_has_not_read_stay_beside_young_ones(revived_after: int) -> None:
    p = Expiring()
    p.fill("a", "m0", "m1")
    p.fill("b", "b0")
    p.read("b")
    p.world.clock.advance(HOUR_MS)
    p.passes(revived_after)
    p.fill("a", "m2")
    p.passes(4)
    assert not p.is_known("b"), "read marks have moved"
    assert p.control("COMPLETE_ADD", "a")[0] == 0
    assert p.pop().bodies == ["m0", "m1", "m2"]


def test_a_lite_topic_with_nothing_old_takes_no_offset() -> None:
    p = Expiring()
    p.fill("gone", "m0", "m1")
    p.read("gone")
    p.world.clock.advance(HOUR_MS)
    p.fill("young", "y0")
    p.passes(3)
    p.fill("younger", "z0")
    p.passes(3)
    assert not p.is_known("gone") and p.ends("younger").min_offset == 2
    assert [p.committed(lite) for lite in ("young", "younger")] == [-1, -1]


def test_a_group_that_is_made_again_between_two_passes_reads_all() -> None:
    p = Expiring()
    p.fill("a", "m0")
    p.world.clock.advance(HOUR_MS)
    p.passes(1)
    p.caller.ok(207, groupName="g", cleanOffset="true")
    p.put_group("g")
    p.passes(3)
    assert p.is_known("a")
    assert p.control("COMPLETE_ADD", "a")[0] == 0
    assert p.pop().bodies == ["m0"]


@pytest.mark.parametrize("was_bound", [False, True])
def test_a_group_that_is_bound_between_two_passes_reads_all(was_bound: bool) -> None:
    p = Expiring()
    if was_bound:
        p.put_group("h")
        p.fill("before", "b0")
        p.wait(EXPIRATION_MIN_MS)
        p.passes(1)
        p.put_group("h", bind="Q")
    p.fill("a", "m0")
    p.read("a")
    p.world.clock.advance(HOUR_MS)
    p.passes(1)
    p.put_group("h")
    p.passes(3)
    assert p.is_known("a")
    assert p.control("COMPLETE_ADD", "a", client="d", group="h")[0] == 0
    assert p.pop("d", consumerGroup="h").bodies == ["m0"]


def test_many_lite_topics_expire_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lite_expiry, "LITES_A_TICK", 3)
    p = Expiring()
    lites = [f"s{number}" for number in range(10)]
    for lite in lites:
        p.fill(lite, "m")
    p.read(*lites)
    p.world.clock.advance(HOUR_MS)
    p.passes()
    assert p.world.parts.store.lights.count == 0 and p.world.parts.metadata.cursors.light_offset_count == 1
    assert p.world.parts.pop.lite_expiry.expired_count == 10
    assert [p.committed(lite) for lite in lites] == [-1] * 10
    p.caller.ok(215, topic="P")
    assert p.world.parts.metadata.cursors.light_offset_count == 0


def test_a_full_table_of_offsets_lets_nothing_expire() -> None:
    p = Expiring(maxConsumerOffsets=1000)
    for number in range(998):
        p.world.parts.metadata.cursors.advance("x", "T", number, 1)
    p.fill("a", "m0")
    p.fill("b", "m0")
    p.read("a")
    p.world.clock.advance(HOUR_MS)
    p.passes(4)
    assert p.is_known("a") and p.is_known("b")
