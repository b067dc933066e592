"""Replication between a real Apache broker and PyMQ, both ways round; the logs are compared byte for byte.

It also covers a live migration: a PyMQ slave follows an Apache master, which stops, and the slave takes over.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.interop.support import contents, probe
from tests.interop.support.replicas import (
    SEGMENT_SIZE_BYTES,
    ApacheMember,
    Member,
    NameServer,
    PymqMember,
    assert_same_log,
)
from tests.interop.test_metadata_apache import check_copied, fill

TOPIC = "Replicated"
GROUP = contents.READER
SEND = 310
UPDATE_BROKER_CONFIG = 25
QUEUES = 4
SERVED_TIMEOUT_S = 180
CONFIRMED_TIMEOUT_MS = 25_000  # shorter than one call of the probe


def send(master: Member, what: str, count: int = 300) -> list[bytes]:
    """Send messages of many sizes, with keys and tags, to all queues."""
    bodies = [f"{what} {n} ".encode() + b"x" * (n * 37 % 2500) for n in range(count)]
    for n, body in enumerate(bodies):
        ext = {"a": "producer", "b": TOPIC, "c": "TBW102", "d": str(QUEUES), "e": str(n % QUEUES), "f": "0"}
        ext |= {"g": "1", "h": "0", "i": f"KEYS\x01{what}-{n}\x02TAGS\x01T{n % 3}\x02UNIQ_KEY\x01{what}{n:028}\x02"}
        reply = probe.call(master.broker, SEND, ext, body)
        assert reply.code == 0, reply
    return bodies


def check_served(broker: Member, bodies: list[bytes]) -> None:
    """Check that every message is in its queue, complete and without gaps."""
    found = []
    for queue in range(QUEUES):
        records = contents.read_queue(broker.broker, TOPIC, queue)
        assert [record.queue_offset for record in records] == list(range(len(records)))
        found += [record.body for record in records]
    assert sorted(found) == sorted(bodies)


def wait_served(broker: Member, bodies: list[bytes]) -> None:
    """Wait until the slave, which builds its queues behind its log, serves all messages."""
    count = len(bodies)

    def all_there() -> bool:
        # A RocketMQ slave copies topics every minute.
        return (
            contents.pull(broker.broker, TOPIC, 0, 0).code == 0
            and sum(probe.max_offset(broker.broker, TOPIC, queue) for queue in range(QUEUES)) == count
        )

    probe.wait_until(f"{count} messages at the {broker.kind} broker", all_there, timeout_s=SERVED_TIMEOUT_S)
    check_served(broker, bodies)


def send_through_kills(master: Member, slave: Member) -> list[bytes]:
    """Send messages before and during replication, without the slave, and after a kill of each; compare the logs."""
    sent = send(master, "before", 50)
    slave.start()
    assert_same_log(master, slave)
    sent += send(master, "during")
    assert_same_log(master, slave)

    slave.kill()
    sent += send(master, "alone")
    slave.start()
    assert_same_log(master, slave)

    master.kill()
    master.start()
    sent += send(master, "restarted")
    assert assert_same_log(master, slave) > 2 * SEGMENT_SIZE_BYTES
    return sent


def test_pymq_follows_apache(tmp_path: Path, namesrv: NameServer, members: list[Member]) -> None:
    master = ApacheMember(tmp_path / "master", namesrv, 0, None)
    slave = PymqMember(tmp_path / "slave", namesrv, 1, None)
    members += [slave, master]
    master.start()
    probe.create_topic(namesrv.address, master.broker, TOPIC)
    sent = send_through_kills(master, slave)

    late = PymqMember(tmp_path / "late", namesrv, 2, None)
    members.append(late)
    late.start()
    last = send(master, "late", 100)
    sent += last
    assert_same_log(master, late)
    assert min(late.segments()) > 0, "a new slave of an Apache master begins with the last segment"
    wait_served(slave, sent)

    # The slave's directory, opened as a master, serves all of it.
    master.kill()  # a clean stop would take 15 s
    slave.stop()
    alone = PymqMember(tmp_path / "slave", namesrv, 0, None)
    members.append(alone)
    alone.start()
    check_served(alone, sent)
    key = {"topic": TOPIC, "key": "during-7", "maxNum": "32", "beginTimestamp": "0", "endTimestamp": str(2**62)}
    assert probe.bodies(probe.call(alone.broker, contents.QUERY_BY_KEY, key).body)[0].startswith("during 7 ")
    sent += send(alone, "promoted", 20)
    check_served(alone, sent)


def test_apache_follows_pymq(tmp_path: Path, namesrv: NameServer, members: list[Member]) -> None:
    master = PymqMember(tmp_path / "master", namesrv, 0, None)
    slave = ApacheMember(tmp_path / "slave", namesrv, 1, None)
    members += [slave, master]
    master.start()
    fill(namesrv, master)
    probe.create_topic(namesrv.address, master.broker, TOPIC)
    sent = send_through_kills(master, slave)

    # A RocketMQ slave's reports count like a PyMQ slave's: an answered message is stored there.
    settings = {"brokerRole": "SYNC_MASTER", "inSyncReplicas": "2", "slaveTimeout": str(CONFIRMED_TIMEOUT_MS)}
    body = "".join(f"{name}={value}\n" for name, value in settings.items()).encode()
    reply = probe.call(master.broker, UPDATE_BROKER_CONFIG, body=body)
    assert reply.code == 0, reply
    for number in range(20):
        sent += send(master, f"sync-{number}", 1)
        assert slave.log_end() == master.log_end()
    assert_same_log(master, slave)

    # A minute after its start it asks for topics and offsets.
    wait_served(slave, sent)
    check_copied(slave)


def test_a_cluster_moves_from_apache_to_pymq(tmp_path: Path, namesrv: NameServer, members: list[Member]) -> None:
    """The slave takes over messages, topics, groups and committed offsets; the group continues with it."""
    master = ApacheMember(tmp_path / "master", namesrv, 0, None)
    slave = PymqMember(tmp_path / "slave", namesrv, 1, {"haFullSync": "true"})
    members += [slave, master]
    master.start()
    probe.create_topic(namesrv.address, master.broker, TOPIC)
    sent = send(master, "apache")
    assert master.log_end() > SEGMENT_SIZE_BYTES
    assert contents.pull(master.broker, TOPIC, 2, 0).code == 0  # makes the group
    contents.commit(master.broker, GROUP, TOPIC, 2, 7)
    slave.start()
    sent += send(master, "together", 50)
    probe.wait_until("the committed offset", lambda: contents.committed(slave.broker, GROUP, TOPIC, 2) == 7)
    assert assert_same_log(master, slave) == master.log_end()
    assert contents.read(slave.broker, [TOPIC], []).records == contents.read(master.broker, [TOPIC], []).records

    master.stop()
    promote = [sys.executable, "-m", "pymq", "broker", "promote", slave.broker, "--yes", "--force"]
    done = subprocess.run([*promote, "--namesrv", namesrv.address], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    probe.wait_until("the slave to be master", lambda: namesrv.members() == {"0": slave.broker})
    check_served(slave, sent)
    sent += send(slave, "pymq", 50)
    check_served(slave, sent)
    assert contents.committed(slave.broker, GROUP, TOPIC, 2) == 7
