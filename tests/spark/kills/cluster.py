"""A master and a slave that are killed and come back, and a producer that goes on."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from pymq.errors import PymqError
from pymq.model.record import encode_batch_entry
from pymq.spark.cluster import RemoteCluster
from pymq.spark.planner import make_plan
from pymq.spark.positions import LATEST, Position
from pymq.spark.ranges import ReadSettings
from pymq.spark.reader import RangeReader
from pymq.spark.remote import Remote
from pymq.spark.topics import TopicChoice
from pymq.wire.command import request
from tests.interop.support.replicas import NameServer, PymqMember

QUEUES = 4
BATCH = 50
PAUSE_S = 0.1
SETTINGS = {"mappedFileSizeCommitLog": str(64 << 20), "slaveTimeout": "3000"}
Row = tuple[int, int, str]


class Pair:
    """A name server with a master, which waits for its slave before it answers, and the slave."""

    def __init__(self, directory: Path) -> None:
        self.namesrv = NameServer(directory / "namesrv")
        self.master = PymqMember(directory / "master", self.namesrv, 0, {**SETTINGS, "brokerRole": "SYNC_MASTER"})
        self.slave = PymqMember(directory / "slave", self.namesrv, 1, SETTINGS)
        self.master.start()
        self.slave.start()

    def close(self) -> None:
        """End all processes."""
        self.slave.end()
        self.master.end()
        self.namesrv.stop()


class Producer:
    """Sends batches in a thread, also while there is no broker. ``answered``: the unique keys of what was stored."""

    def __init__(self, pair: Pair, topic: str) -> None:
        self.answered: set[str] = set()
        self._pair = pair
        self._topic = topic
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._send_all, daemon=True)

    def start(self) -> None:
        with Remote(self._pair.master.broker) as remote:
            fields = {"readQueueNums": str(QUEUES), "writeQueueNums": str(QUEUES), "perm": "6"}
            names = {"topic": self._topic, "defaultTopic": "TBW102", "topicFilterType": "SINGLE_TAG"}
            remote.ask_ok(request(17, {**fields, **names}))
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
        header = {"a": "G", "b": self._topic, "c": "TBW102", "d": str(QUEUES), "e": str(number % QUEUES)}
        header |= {"f": "0", "g": str(int(time.time() * 1000)), "h": "0", "i": "", "j": "0", "k": "false", "m": "true"}
        remote.ask_ok(request(320, header, b"".join(entries)))
        self.answered.update(keys)


def stored_rows(namesrv: str, topic: str) -> list[Row]:
    """Return (queue id, offset, unique key) of all messages of a topic, in order."""
    with RemoteCluster(namesrv) as view:
        plan = make_plan(view, TopicChoice((topic,)), Position(), Position(symbol=LATEST))
    settings = ReadSettings(columns=("queueId", "queueOffset", "msgId"))
    batches = [batch for part in plan.ranges for batch in RangeReader(part, settings).batches()]
    return sorted(row for batch in batches for row in zip(*batch.to_pydict().values(), strict=True))
