"""A master and a slave that are killed and come back, and a producer that goes on."""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path

from pymq.errors import PymqError
from pymq.model.record import encode_batch_entry
from pymq.spark.planning.cluster import RemoteCluster
from pymq.spark.planning.planner import make_plan
from pymq.spark.planning.positions import LATEST, Position
from pymq.spark.planning.ranges import ReadSettings
from pymq.spark.planning.remote import Remote
from pymq.spark.planning.topics import TopicChoice
from pymq.spark.reading.reader import RangeReader
from pymq.spark.reading.unrepeated import DUPLICATE_WINDOW_ROWS
from pymq.spark.source.sources_of_rows import open_reader
from pymq.wire.command import request
from pymq.wire.header import decode_header
from pymq.wire.headers.send import SendMessageAnswer
from tests.interop.support.replicas import NameServer, PymqMember

QUEUES = 4
BATCH = 50
PAUSE_S = 0.1
# A segment of the log is full after a few seconds, so that there are old ones to delete.
SEGMENT_SIZE_BYTES = 256 << 10
SETTINGS = {
    "mappedFileSizeCommitLog": str(SEGMENT_SIZE_BYTES),
    "slaveTimeout": "3000",
    # A disk that others fill must not have messages deleted before they are read.
    "cleanFileForciblyEnable": "false",
}
OLD_S = 30 * 24 * 3600.0
CREATE_TOPIC, SEND_BATCH, DELETE_EXPIRED = 17, 320, 329
Row = tuple[int, int, str]


class Pair:
    """A name server with a master, which waits for its slave before it answers, and the slave."""

    def __init__(self, directory: Path) -> None:
        self.namesrv = NameServer(directory / "namesrv")
        self.master = PymqMember(directory / "master", self.namesrv, 0, {**SETTINGS, "brokerRole": "SYNC_MASTER"})
        self.slave = PymqMember(directory / "slave", self.namesrv, 1, SETTINGS)
        self.master.start()
        self.slave.start()

    def restart_master(self, role: str) -> None:
        """Kill the master, if it runs, and start it with another role."""
        self.master.kill()
        self.master.settings["brokerRole"] = role
        self.master.start()

    def set_queues(self, topic: str, count: int) -> None:
        """Create the topic, or give it more queues."""
        fields = {"readQueueNums": str(count), "writeQueueNums": str(count), "perm": "6"}
        names = {"topic": topic, "defaultTopic": "TBW102", "topicFilterType": "SINGLE_TAG"}
        with Remote(self.master.broker) as remote:
            remote.ask_ok(request(CREATE_TOPIC, {**fields, **names}))

    def expire(self, log_end: int) -> None:
        """Let both brokers delete the segments of their logs that end at ``log_end`` or before."""
        for member in (self.master, self.slave):
            for segment in sorted((member.store / "commitlog").iterdir()):
                if int(segment.name) + SEGMENT_SIZE_BYTES <= log_end:
                    old = time.time() - OLD_S
                    os.utime(segment, (old, old))
            with Remote(member.broker) as remote:
                remote.ask_ok(request(DELETE_EXPIRED))

    def close(self) -> None:
        """End all processes."""
        self.slave.end()
        self.master.end()
        self.namesrv.stop()


class Producer:
    """Sends batches in a thread, also while there is no broker.

    ``answered``: the rows of what was stored; ``sent``: the unique keys of all messages; ``queues``: where they go.
    """

    def __init__(self, pair: Pair, topic: str) -> None:
        self.answered: set[Row] = set()
        self.sent: set[str] = set()
        self.queues = QUEUES
        self._pair = pair
        self._topic = topic
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._send_all, daemon=True)

    def start(self) -> None:
        self._pair.set_queues(self._topic, self.queues)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def _send_all(self) -> None:
        remote: Remote | None = None
        number = 0
        while not self._stopping.wait(PAUSE_S):
            number += 1
            try:
                remote = remote or Remote(self._pair.master.broker, timeout_s=5.0)
                self._send(remote, number)
            except PymqError:  # what happened to the batch is not known: its messages may be there or not
                if remote is not None:
                    remote.close()
                remote = None

    def _send(self, remote: Remote, number: int) -> None:
        keys = [f"U{number:07d}{place:03d}" for place in range(BATCH)]
        entries = [encode_batch_entry(b"body", f"UNIQ_KEY\x01{key}\x02".encode()) for key in keys]
        queue_id = number % self.queues
        header = {"a": "G", "b": self._topic, "c": "TBW102", "d": str(self.queues), "e": str(queue_id)}
        header |= {"f": "0", "g": str(int(time.time() * 1000)), "h": "0", "i": "", "j": "0", "k": "false", "m": "true"}
        self.sent.update(keys)
        answer = remote.ask_ok(request(SEND_BATCH, header, b"".join(entries)))
        first = decode_header(SendMessageAnswer, answer.ext).queue_offset
        self.answered.update((queue_id, first + place, key) for place, key in enumerate(keys))


def queue_ends(namesrv: str, topic: str) -> dict[int, int]:
    """Return the offset after the last message of each queue."""
    with RemoteCluster(namesrv) as view:
        queues = view.queues_of([topic])[topic]
        return {queue.queue_id: bounds.high for queue, bounds in view.bounds(queues).items()}


def copied_rows(namesrv: str, topic: str) -> list[Row]:
    """Return the rows that are the bodies of a topic, queue by queue in its order, without repetitions of messages."""
    with RemoteCluster(namesrv) as view:
        plan = make_plan(view, TopicChoice((topic,)), Position(), Position(symbol=LATEST))
    settings = ReadSettings(columns=("body",), duplicate_window_rows=DUPLICATE_WINDOW_ROWS)
    batches = [batch for part in plan.ranges for batch in open_reader(part, settings).batches()]
    rows = [json.loads(body) for batch in batches for body in batch.column("body").to_pylist()]
    return [(row["queueId"], row["queueOffset"], row["msgId"]) for row in rows]


def stored_rows(namesrv: str, topic: str) -> list[Row]:
    """Return (queue id, offset, unique key) of all messages of a topic, in order."""
    with RemoteCluster(namesrv) as view:
        plan = make_plan(view, TopicChoice((topic,)), Position(), Position(symbol=LATEST))
    settings = ReadSettings(columns=("queueId", "queueOffset", "msgId"))
    batches = [batch for part in plan.ranges for batch in RangeReader(part, settings).batches()]
    return sorted(row for batch in batches for row in zip(*batch.to_pydict().values(), strict=True))
