"""The recorded workloads. Each drives a store through one kind of trouble. They are short: each call is a crash."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

from tests.crash.driver import Driver

QUEUES = (("Alpha", 0), ("Alpha", 1), ("Beta", 0), ("%RETRY%" + "g" * 140, 0))


class Workload(NamedTuple):
    """One workload. ``settings`` are the store's, on top of the small sizes that tests use."""

    name: str
    run: Callable[[Driver], None]
    settings: dict[str, Any]

    def recorded(self) -> Driver:
        driver = Driver(**self.settings)
        self.run(driver)
        driver.record("end")
        return driver


def _singles(d: Driver) -> None:
    """One message a commit, and a flush now and then."""
    for i in range(16):
        d.send("Alpha", i % 2, (20 + 90 * (i % 4),))
        if i % 5 == 4:
            d.tick()
            d.sync()


def _batches(d: Driver) -> None:
    for i in range(6):
        d.send_batch("Alpha", i % 2, (30, 200, 5)[: i % 3 + 1])
        d.send("Beta", 0, (10, 10, 600))
        if i == 3:
            d.checkpoint()
    d.sync()


def _many_queues(d: Driver) -> None:
    """Every commit has a message for each of many queues, so one lost page takes parts of several."""
    for i in range(5):
        d.send_to(*((topic, n) for topic in ("Alpha", "Beta", "Gamma") for n in range(3)), size=20 + 70 * (i % 2))
        if i % 2:
            d.tick()
        if i == 2:
            d.checkpoint()


def _segment_roll(d: Driver) -> None:
    """Records that fill segments to the last byte, with blank records of every size between."""
    for i in range(9):
        d.send("Alpha", 0, (900, 300 + 37 * i), sync=i % 4 == 3)
        d.send("Beta", 0, (11 * i,))
        if i % 3 == 2:
            d.tick()
    d.sync()
    d.send("Alpha", 0, (1_000, 1_000, 1_000, 1_000))


def _keys(d: Driver) -> None:
    """Index files fill up and follow each other."""
    for i in range(7):
        d.send_to(*QUEUES, size=5)
        d.tick()
        if i % 3 == 2:
            d.checkpoint()


def _sync_flush(d: Driver) -> None:
    """Every answer waits for its fsync."""
    for i in range(8):
        d.send_to(*QUEUES[: i % 4 + 1], sync=True)
        d.send("Alpha", 1, (600,), sync=True)
        if i == 4:
            d.tick()


def _retention(d: Driver) -> None:
    """The oldest segments are deleted with their queue and index files; one queue loses all messages."""
    d.send("Beta", 0, (100, 100, 100))
    for i in range(8):
        d.send_to(*QUEUES[:2], size=300)
        d.send("Alpha", i % 2, (700, 10, 10))
        d.tick()
        if i % 3 == 2:
            d.expire()
    d.restart()
    d.expire()
    d.send_to(*QUEUES, size=20)


def _group_commit(d: Driver) -> None:
    """Several commits share an fsync, others come in between."""
    for i in range(5):
        d.send_overlapping()
        d.send_to(*QUEUES[:2], sync=i % 2 == 0)
        if i == 2:
            d.checkpoint()


def _mixed_flush(d: Driver) -> None:
    """Asynchronous answers, then synchronous ones behind them, and back."""
    for i in range(9):
        d.send_to(*QUEUES[:3], size=40 * i, sync=i % 3 == 1)
        if i % 4 == 3:
            d.sync()
        if i == 5:
            d.checkpoint()


def _checkpoints(d: Driver) -> None:
    for i in range(6):
        d.send("Alpha", i % 3, (100, 20))
        d.tick()
        d.checkpoint()
        d.send("Beta", 0, (50,))


def _deleted_topics(d: Driver) -> None:
    """Topics are deleted and created again; their records stay in the log."""
    for i in range(3):
        d.send_to(("Alpha", 0), ("Alpha", 1), ("Beta", 0))
        d.send("Alpha", 0, (30,) * 12)
        if i != 1:
            d.checkpoint()
        d.delete_topic("Alpha")
        d.send("Beta", 0, (20,))
        d.send("Alpha", 0, (20, 20))
        d.remove_deleted(3 - i)


def _tables(d: Driver) -> None:
    for i in range(6):
        d.save_table()
        d.send("Alpha", 0, (30,))
        if i == 3:
            d.restart()


def _restarts(d: Driver) -> None:
    """Clean stops and kills in between."""
    for i in range(4):
        d.send_to(*QUEUES, size=60 * i)
        if i % 2:
            d.restart()
        else:
            d.send("Alpha", 0, (200,), sync=i > 0)
            d.kill()
        d.send("Beta", 0, (30,))


def _recovery(d: Driver) -> None:
    """Power losses, and crashes of the recovery, repeatedly."""
    for i in range(4):
        d.send_to(*QUEUES, size=200)
        d.sync()
        d.send_to(*QUEUES, size=150)
        d.send("Alpha", 0, (700, 20))
        d.tick()
        d.lose_power(i)
        d.send("Beta", 0, (20,))


def _special(d: Driver) -> None:
    """Half messages (in no queue) and delayed ones (due times in the units)."""
    for i in range(5):
        d.send_half()
        d.send_delayed(i + 1)
        d.send("Alpha", 0, (30,))
        if i == 2:
            d.checkpoint()
    d.sync()


def _lost_segments(d: Driver) -> None:
    """Power losses that leave a hole early in several segments, so that a recovery removes files."""
    for i in range(5):
        d.send("Alpha", 0, (50,), sync=True)
        for _ in range(3):
            d.send("Alpha", 0, (900, 900, 900, 900))
        d.lose_power(i)
        d.send("Beta", 0, (20,))


def _wide_properties(d: Driver) -> None:
    """Properties, which no checksum covers, span whole disk pages."""
    for i in range(6):
        d.send_wide(700 + 400 * (i % 3))
        if i == 2:
            d.restart()


def _equal_sizes(d: Driver) -> None:
    """Records of one size, so that remains of lost ones would line up with new ones."""
    for i in range(6):
        d.send_to(("Alpha", 0), size=250, sync=True)
        for _ in range(6):
            d.send_to(("Alpha", 0), size=250)
        d.lose_power(i)
        d.send_to(("Alpha", 0), size=250)
        d.kill()


def _following(d: Driver) -> None:
    """A slave gets the log in pieces that end anywhere: in records, in blank records, across segments."""
    master = d.follow()
    for i in range(7):
        master.send_to(*QUEUES, size=60 * i)
        master.send("Alpha", 0, (700, 20)[: i % 2 + 1])
        if i == 2:
            master.send_half()
            master.send_delayed(2)
        d.grow(700 + 97 * i, 333, dispatch=i % 3 != 1)
        if i % 2:
            d.tick()
        if i == 3:
            d.checkpoint()
        d.sync()
    d.grow(1 << 20)


def _following_restarts(d: Driver) -> None:
    """A slave stops, is killed and loses power with incomplete records; then it becomes the master."""
    master = d.follow()
    for i in range(6):
        master.send_to(*QUEUES, size=250)
        master.send_batch("Alpha", 0, (30, 900, 5))
        d.grow(800 + 150 * i, 500)
        (d.restart, d.kill, lambda: d.lose_power(7))[i % 3]()
        d.grow(300)
        d.tick()
    d.lead()
    d.send_to(*QUEUES[:2], size=40)
    d.kill()


def _truncate(d: Driver) -> None:
    """A log's divergent tail is truncated: a little of it, and more than a segment."""
    for i in range(3):
        d.send_to(*QUEUES, size=250)
        d.send("Alpha", 0, (700, 900, 30, 800, 900)[: 2 * i + 1])
        if i == 1:
            d.checkpoint()
        d.truncate(-1 - 2 * i)
        d.send_to(*QUEUES[:2], size=250)


def _following_equal(d: Driver) -> None:
    """Records of one size, so that the start of a lost one would line up with another's end."""
    master = d.follow()
    for i in range(5):
        for _ in range(4):
            master.send_to(("Alpha", 0), size=250)
        d.grow(900)
        if i % 2:
            d.sync()
        d.lose_power(i)
        d.grow(450)
        d.kill()


def _lite_topics(d: Driver) -> None:
    """Light queues grow between others; their parents are deleted, the log is truncated and its oldest segment goes."""
    for i in range(4):
        d.send_lite("Jobs", "a", "b", f"only-{i}", size=60, sync=i % 2 == 1)
        d.send("Jobs", 0, (30,))
        d.tick()
    d.checkpoint()
    d.send_lite("Chats", "a", "a", "c")
    d.restart()
    d.send_lite("Jobs", "b", "d", size=500)
    d.delete_topic("Chats")
    d.send_lite("Chats", "c", size=400)
    d.kill()
    d.truncate(-2)
    for i in range(5):
        d.send_lite("Jobs", "a", f"new-{i}", size=700)
        d.tick()
        if i % 2:
            d.expire()
    d.lose_power(3)
    d.send_lite("Jobs", "a", "only-0", "new-1")
    d.checkpoint()
    d.send_lite("Jobs", "a")


def _lite_sends(d: Driver) -> None:
    """Light queues grow, some with each fsync, and a stop comes between."""
    for i in range(6):
        d.send_lite("Jobs", "a", "b", "a", f"only-{i}", size=60, sync=i % 3 == 2)
        d.send("Jobs", 0, (30,))
        d.tick()
        if i == 3:
            d.checkpoint()
            d.restart()
    d.sync()
    d.send_lite("Jobs", "b", "only-0")


def _lite_following(d: Driver) -> None:
    """Light queues grow with another broker's log."""
    origin = d.follow()
    for i in range(4):
        origin.send_lite("Jobs", "a", "b", f"only-{i}", size=60)
        origin.send("Jobs", 0, (30, 300))
        d.grow(500, 170)
        d.tick()
        if i == 2:
            d.checkpoint()
    d.grow(10_000, 900)
    d.lead()
    d.send_lite("Jobs", "a", "c")


FIXED = (
    Workload("singles", _singles, {}),
    Workload("batches", _batches, {}),
    Workload("many-queues", _many_queues, {}),
    Workload("segment-roll", _segment_roll, {}),
    Workload("keys", _keys, {}),
    Workload("wide-index", _keys, {"index_slot_count": 150, "index_entry_count": 100}),
    Workload("sync-flush", _sync_flush, {}),
    Workload("retention", _retention, {}),
    Workload("group-commit", _group_commit, {}),
    Workload("mixed-flush", _mixed_flush, {}),
    Workload("checkpoints", _checkpoints, {}),
    Workload("deleted-topics", _deleted_topics, {}),
    Workload("tables", _tables, {}),
    Workload("restarts", _restarts, {}),
    Workload("recovery", _recovery, {}),
    Workload("special", _special, {"queue_file_size_bytes": 400}),
    Workload("lost-segments", _lost_segments, {}),
    Workload("equal-sizes", _equal_sizes, {}),
    Workload("wide-properties", _wide_properties, {}),
    Workload("no-index", _mixed_flush, {"index_enabled": False}),
    Workload("following", _following, {}),
    Workload("following-restarts", _following_restarts, {}),
    Workload("following-equal", _following_equal, {}),
    Workload("truncate", _truncate, {}),
    Workload("lite-topics", _lite_topics, {}),
    Workload("lite-sends", _lite_sends, {}),
    Workload("lite-topics-of-a-slave", _lite_following, {}),
)


def mixed(seed: int) -> Workload:
    """Return a workload of random steps, drawn from ``seed``."""

    def run(d: Driver) -> None:
        chance = random.Random(seed)
        for _ in range(chance.randint(8, 25)):
            chance.choices(_STEPS, _WEIGHTS)[0](d, chance)

    settings: dict[str, Any] = {"index_enabled": seed % 7 != 0}
    if seed % 3 == 0:
        settings |= {"index_slot_count": 150, "index_entry_count": 100}
    return Workload(f"mixed{seed}", run, settings)


Step = Callable[[Driver, random.Random], None]


def _sizes(chance: random.Random) -> tuple[int, ...]:
    return tuple(chance.choice((0, 10, 80, 300, 800)) for _ in range(chance.randint(1, 4)))


def _step_send(d: Driver, chance: random.Random) -> None:
    d.send(*chance.choice(QUEUES), _sizes(chance), sync=chance.random() < 0.3)


def _step_send_to(d: Driver, chance: random.Random) -> None:
    d.send_to(*chance.sample(QUEUES, chance.randint(1, 4)), size=chance.randrange(300), sync=chance.random() < 0.3)


def _step_batch(d: Driver, chance: random.Random) -> None:
    d.send_batch(*chance.choice(QUEUES), _sizes(chance), sync=chance.random() < 0.3)


_STEPS: list[Step] = [
    _step_send,
    _step_send_to,
    _step_batch,
    lambda d, chance: d.tick(chance.choice((0, 500, 1_000, 15_000))),
    lambda d, _: d.sync(),
    lambda d, _: d.checkpoint(),
    lambda d, chance: d.delete_topic(chance.choice(("Alpha", "Beta"))),
    lambda d, _: d.save_table(),
    lambda d, _: d.restart(),
    lambda d, _: d.kill(),
    lambda d, chance: d.lose_power(chance.getrandbits(20)),
    lambda d, _: d.send_half(),
    lambda d, chance: d.send_delayed(chance.randint(1, 3)),
]
_WEIGHTS = [10, 6, 4, 5, 3, 2, 2, 1, 1, 1, 1, 1, 1]


def workload(name: str) -> Workload:
    """Return a workload by the name that a failure prints."""
    number = name.removeprefix("mixed")
    if number.isdigit():
        return mixed(int(number))
    return next(found for found in FIXED if found.name == name)
