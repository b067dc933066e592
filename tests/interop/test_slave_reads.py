"""Java clients with the answers of a SYNC_MASTER, and reading from a slave without its master."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.support import probe
from tests.interop.support.replicas import GET_RUNTIME_INFO, Member, NameServer, PymqMember, wait_for_copy
from tests.interop.support.running import RunningJava

TOPIC = "Replicated"
GROUP = "replica-readers"
QUERY_CONSUMER_OFFSET = 14
UPDATE_BROKER_CONFIG = 25
PATIENT_MS, IMPATIENT_MS = 25_000, 1500  # within the client's own timeout
LINE_TIMEOUT_S = 120


@pytest.fixture
def members() -> Iterator[list[PymqMember]]:
    """Return a list for the brokers that a test starts; they are ended after it."""
    started: list[PymqMember] = []
    yield started
    for member in started:
        signal_to(member, signal.SIGCONT)
        member.end()


class JavaClient:
    """The program ``java/replicas``: a producer and a consumer that take commands."""

    def __init__(self, namesrv: NameServer, directory: Path) -> None:
        self.lines: list[str] = []
        self._program = RunningJava("replicas", [namesrv.address, TOPIC], directory, self._gather)
        self.write_line = self._program.write_line
        self.end = self._program.kill

    def _gather(self, line: str) -> None:
        self.lines.append(line.rstrip("\n"))

    def line(self, start: str) -> str:
        """Wait for a line with this beginning and return the first one."""
        probe.wait_until(f"a line {start!r}", lambda: self._found(start), timeout_s=LINE_TIMEOUT_S)
        return self._found(start)[0]

    def _found(self, start: str) -> list[str]:
        return [line for line in self.lines if line.startswith(start)]

    def send(self, body: str) -> str:
        """Send a message and return its outcome: "STATUS OFFSET" or "CODE REMARK"."""
        self.write_line(f"send {body}")
        return self.outcome(body)

    def send_all(self, bodies: list[str]) -> None:
        for body in bodies:
            self.write_line(f"send {body}")
        for body in bodies:
            outcome = self.outcome(body)
            assert outcome.startswith("SEND_OK"), f"{body}: {outcome}"

    def outcome(self, body: str) -> str:
        probe.wait_until(f"the fate of {body}", lambda: self._fate(body), timeout_s=LINE_TIMEOUT_S)
        return self._fate(body)

    def _fate(self, body: str) -> str:
        return next((line.split(" ", 2)[2] for line in self.lines if re.match(rf"(sent|failed) {body} ", line)), "")

    def got(self) -> list[str]:
        """Return the bodies that the consumer got, in order."""
        return [line[4:] for line in self.lines if line.startswith("got ")]


@pytest.fixture
def java(namesrv: NameServer, tmp_path: Path) -> Iterator[JavaClient]:
    client = JavaClient(namesrv, tmp_path / "java")
    yield client
    client.end()


def signal_to(member: PymqMember, number: signal.Signals) -> None:
    server = member._server
    if server is not None and server.process.poll() is None:
        os.kill(server.process.pid, number)


def stored(master: Member) -> int:
    return sum(probe.max_offset(master.broker, TOPIC, queue) for queue in range(1))


def committed(broker: Member) -> int:
    fields = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "0", "setZeroIfNotFound": "false"}
    reply = probe.call(broker.broker, QUERY_CONSUMER_OFFSET, fields)
    return int(reply.ext["offset"]) if reply.code == 0 else -1


def test_a_java_producer_sees_the_status_of_its_message(
    namesrv: NameServer, members: list[PymqMember], java: JavaClient, tmp_path: Path
) -> None:
    settings = {"brokerRole": "SYNC_MASTER", "slaveTimeout": str(PATIENT_MS)}
    master = PymqMember(tmp_path / "master", namesrv, 0, settings)
    slave = PymqMember(tmp_path / "slave", namesrv, 1, None)
    members += [master, slave]
    master.start()
    probe.create_topic(namesrv.address, master.broker, TOPIC, queues=1)
    end = master.log_end()
    refused = java.send("too-few")
    assert refused.startswith("14 ") and "needs 1 slave in sync (inSyncReplicas 2), but has 0" in refused
    assert master.log_end() == end, "nothing was stored"

    slave.start()
    wait_for_copy(master, slave)
    probe.wait_until("sends to be taken", lambda: probe.call(master.broker, 310, send_fields(), b"probe").code == 0)
    assert java.send("confirmed").split()[0] == "SEND_OK"
    seen = stored(master)

    set_slave_timeout(master, IMPATIENT_MS)
    signal_to(slave, signal.SIGSTOP)
    assert java.send("slow") == f"FLUSH_SLAVE_TIMEOUT {seen}", "stored, with its offset"
    assert stored(master) == seen, "and invisible to consumers"
    signal_to(slave, signal.SIGCONT)
    probe.wait_until("the late message to be seen", lambda: stored(master) == seen + 1)

    set_slave_timeout(master, PATIENT_MS)
    signal_to(slave, signal.SIGSTOP)
    end = master.log_end()
    java.write_line("send left")
    probe.wait_until("the message to be stored", lambda: master.log_end() > end)
    slave.kill()
    assert java.outcome("left") == f"SLAVE_NOT_AVAILABLE {seen + 1}"
    assert java.send("none-left").startswith("14 ") and stored(master) == seen + 1

    slave.start()
    probe.wait_until("the unconfirmed messages to be seen", lambda: stored(master) == seen + 2)
    java.write_line(f"consume {GROUP}")
    probe.wait_until("the consumer", lambda: len(java.got()) >= seen + 2)
    assert sorted(java.got()) == sorted(["probe"] * (seen - 1) + ["confirmed", "slow", "left"])


def set_slave_timeout(master: Member, timeout_ms: int) -> None:
    reply = probe.call(master.broker, UPDATE_BROKER_CONFIG, body=f"slaveTimeout={timeout_ms}\n".encode())
    assert reply.code == 0, reply


def send_fields() -> dict[str, str]:
    return {"a": "P", "b": TOPIC, "c": "TBW102", "d": "1", "e": "0", "f": "0", "g": "1", "h": "0", "i": ""}


def test_a_java_consumer_keeps_reading_from_a_slave(
    namesrv: NameServer, members: list[PymqMember], java: JavaClient, tmp_path: Path
) -> None:
    master = PymqMember(tmp_path / "master", namesrv, 0, None)
    slave = PymqMember(tmp_path / "slave", namesrv, 1, None)
    members += [master, slave]
    master.start()
    slave.start()
    probe.create_topic(namesrv.address, master.broker, TOPIC, queues=1)
    java.write_line(f"consume {GROUP}")
    bodies = [f"before-{n}" for n in range(5)]
    java.send_all(bodies)
    probe.wait_until("messages from the master", lambda: sorted(java.got()) == sorted(bodies))

    java.write_line("suspend")
    java.line("suspended")
    probe.wait_until("the offset at the master", lambda: committed(master) == 5)
    more = [f"copied-{n}" for n in range(20)]
    java.send_all(more)
    wait_for_copy(master, slave)
    probe.wait_until("the topic at the slave", lambda: probe.max_offset(slave.broker, TOPIC, 0) == 25)
    # The pull that was parked at the master when the consumer was suspended returns the first of them.
    probe.wait_until("the offset at the slave", lambda: committed(slave) == committed(master) == len(java.got()))
    master.kill()
    java.write_line("resume")
    probe.wait_until("messages from the slave", lambda: len(java.got()) == 25)
    probe.wait_until("the offset at the slave", lambda: committed(slave) == 25)
    assert java.send("refused").split()[0] in ("-1", "14"), "the slave takes no messages"

    master.start()
    probe.wait_until("the offset back at the master", lambda: committed(master) == 25)
    probe.wait_until("sends to be taken again", lambda: java.send("after").startswith("SEND_OK"))
    probe.wait_until("the messages after that", lambda: "after" in java.got()[25:])
    assert sorted(java.got()[:25]) == sorted(bodies + more), "no message twice or missing"
    assert set(java.got()[25:]) == {"after"}


def test_a_lagging_java_consumer_reads_from_a_slave_for_a_while(
    namesrv: NameServer, members: list[PymqMember], java: JavaClient, tmp_path: Path
) -> None:
    settings = {"accessMessageInMemoryMaxRatio": "0"}  # a consumer that is not at the end counts as far behind
    master = PymqMember(tmp_path / "master", namesrv, 0, settings)
    slave = PymqMember(tmp_path / "slave", namesrv, 1, settings)
    members += [master, slave]
    master.start()
    slave.start()
    probe.create_topic(namesrv.address, master.broker, TOPIC, queues=1)
    backlog = [f"backlog-{n}" for n in range(300)]
    java.send_all(backlog)
    wait_for_copy(master, slave)
    probe.wait_until("the topic at the slave", lambda: probe.max_offset(slave.broker, TOPIC, 0) == len(backlog))
    java.write_line(f"consume {GROUP}")
    probe.wait_until("the backlog", lambda: len(java.got()) == len(backlog))
    by_slave = given(slave)
    assert by_slave > 0 and given(master) + by_slave == len(backlog), "each message once, some by the slave"
    # At the end the slave's answer sends it back to the master for its next pull.
    probe.wait_until(
        "the return to the master", lambda: java.send("back").startswith("SEND_OK") and given(master) > 300 - by_slave
    )
    probe.wait_until(
        "every sent message", lambda: java.got().count("back") == sum("sent back " in x for x in java.lines)
    )
    assert sorted(java.got()[:300]) == sorted(backlog)


def given(broker: Member) -> int:
    """Return the number of messages that the broker gave to consumers."""
    return int(json.loads(probe.call(broker.broker, GET_RUNTIME_INFO).body)["table"]["msgGetTotalTodayNow"])
