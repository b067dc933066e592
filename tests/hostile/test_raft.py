"""Strangers at a Raft group of real processes: they know all that answers and names tell, and not the secret."""

from __future__ import annotations

import asyncio
import os
import random
import socket
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from pymq.broker.raft.answer_proof import RAFT_PROOF
from pymq.broker.raft.bodies import Seal, encode_message, founding_id
from pymq.broker.raft.handshake import LOG_BYTES, MESSAGES, Hello, Welcome
from pymq.broker.raft.peers import LENGTH
from pymq.broker.raft.secret_file import Secrets, decode_secrets, write_secrets
from pymq.client import Admin, Message, MessageQueue, Producer
from pymq.model.tables import TopicConfig
from pymq.raft import messages
from pymq.raft.messages import AppendRequest, Found, Heartbeat, Piece, Snapshot, SnapshotOffer, VoteRequest
from pymq.raft.state import Epoch, Kind, Membership, MembershipEntry, Position, Replica
from pymq.store.disk.fs import RealFiles
from pymq.wire.bodies_raft import RaftGroupState, ReportRequest
from pymq.wire.codes import RequestCode
from pymq.wire.command import Command, encode_command, request
from tests.broker.raft.processes import NAME, RaftProcesses
from tests.hostile.harness import Peer, eventually

CLUSTER = "DefaultCluster"
TOPIC = "t"
QUEUE = MessageQueue(TOPIC, NAME, 0)
TERM_MAX = 1 << 62
FORGED = b"forged"
WAIT_S = 90.0


class Group:
    """A group with messages, and a way to it that everybody has."""

    def __init__(self, processes: RaftProcesses) -> None:
        self.processes = processes
        asyncio.run(self._begin())

    async def _begin(self) -> None:
        async with Admin(self.processes.namesrv) as admin:
            leader = await self.processes.until_registered(admin)
            topic = TopicConfig(topic_name=TOPIC, read_queue_nums=1, write_queue_nums=1)
            await admin.topics.put(self.processes.address(leader), topic)
        await self.send_all(20)

    async def send_all(self, count: int) -> None:
        async with Producer("p", namesrv=self.processes.namesrv) as producer:
            for number in range(count):
                await producer.send(Message(TOPIC, b"m%d" % number * 50), queue=QUEUE)

    def ask(self, node: str, command: Command) -> Command:
        with Peer(self.processes.address(node)) as peer:
            peer.send(encode_command(command))
            answer = peer.receive()
        assert answer is not None
        return answer

    def state(self, node: str) -> RaftGroupState:
        answer = self.ask(node, request(RequestCode.PYMQ_GET_REPLICATION_STATUS))
        return msgspec.convert(msgspec.json.decode(answer.body)["raft"], RaftGroupState)

    @property
    def nodes(self) -> list[str]:
        return list(self.processes.ports)

    @property
    def leader(self) -> str:
        return next(node for node in self.nodes if self.state(node).role == "leader")

    @property
    def first(self) -> Membership:
        """The first membership, as its disk ids in a status give it away."""
        members = self.state(self.nodes[0]).members
        return Membership(tuple((Replica(each.node, each.disk_id), Kind.VOTER) for each in members))

    def tell(self, node: str, body: bytes, data: bytes | None = None) -> None:
        code = RequestCode.PYMQ_RAFT_MESSAGE if data is None else RequestCode.PYMQ_RAFT_APPEND
        whole = body if data is None else LENGTH.pack(len(body)) + body + data
        command = request(code, None, whole)
        with Peer(self.processes.address(node)) as peer:
            peer.send(encode_command(command))
            peer.send(encode_command(request(RequestCode.PYMQ_GET_REPLICATION_STATUS)))
            assert peer.receive() is not None, "the request was looked at"

    def logs(self) -> dict[str, bytes]:
        """Return what the files of the log have now."""
        paths = {node: self.processes.root(node) / "commitlog" / f"{0:020d}" for node in self.nodes}
        return {node: path.read_bytes() for node, path in paths.items()}


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Group]:
    with RaftProcesses(tmp_path_factory.mktemp("raft")) as processes:
        yield Group(processes)


def forgeries(group: Group, sender: Replica, to: Replica, state: RaftGroupState) -> dict[str, messages.Message]:
    term, end = state.term, state.log_end
    last, entry = Position(term, end), MembershipEntry(0, group.first)
    later = (Epoch(1, 0), Epoch(term + 1, end))
    alone = Membership(((sender, Kind.VOTER),))
    return {
        "vote": VoteRequest(sender, to, term + 1, last, is_transfer=True),
        "vote of the last term": VoteRequest(sender, to, TERM_MAX, last, is_transfer=True),
        "pre-vote": messages.PreVoteRequest(sender, to, TERM_MAX, Position(TERM_MAX, 1 << 50)),
        "heartbeat": Heartbeat(sender, to, term + 5, end, 1),
        "heartbeat beyond the log": Heartbeat(sender, to, term, 1 << 50, 1 << 60),
        "append": AppendRequest(
            sender, to, term + 5, last, (Piece(term + 5, end, end + len(FORGED)),), (), end + len(FORGED)
        ),
        "snapshot": SnapshotOffer(
            sender, to, term + 1, Snapshot(1 << 30, Position(term + 1, 1 << 31), later, (entry,))
        ),
        "time-out": messages.TimeoutNow(sender, to, term),
        "introduction": messages.Introduction(replace_disk(sender), to, term, Position(0, 0)),
        "founding": messages.FoundRequest(replace_disk(sender), to, term),
        "found": Found(sender, to, TERM_MAX, sender, Position(0, 0), alone),
        "hello": Hello(sender, to, 0, "5" * 32),
        "welcome": Welcome(sender, to, 0, "5" * 32, 1),
    }


def replace_disk(replica: Replica) -> Replica:
    return replica._replace(disk_id="f" * 16)


@pytest.mark.slow
def test_nothing_that_a_stranger_says_counts(group: Group) -> None:
    before = {node: group.state(node) for node in group.nodes}
    members = {replica.node_id: replica for replica in group.first.replicas}
    founded = founding_id(group.first)
    keys = [b"", bytes(32), bytes.fromhex(founded), founded.encode(), group.first.replicas[0].disk_id.encode()]
    rng = random.Random(7)
    for to in group.nodes:
        for sender in group.nodes:
            if sender == to:
                continue
            for kind, message in forgeries(group, members[sender], members[to], before[to]).items():
                key = rng.choice(keys)
                is_handshake = kind in ("hello", "welcome")
                lane = LOG_BYTES if kind == "append" else MESSAGES
                seal = Seal(founded, "5" * 16, "6" * 16, 0 if is_handshake else 1, lane, 1, key)
                data = FORGED if kind == "append" else None
                body = encode_message(message, seal, cluster=CLUSTER, group=NAME, data=data or b"")
                group.tell(to, body, data)
    after = {node: group.state(node) for node in group.nodes}
    for node in group.nodes:
        old, new = before[node], after[node]
        assert (new.term, new.leader, new.role) == (old.term, old.leader, old.role)
        assert [member.disk_id for member in new.members] == [member.disk_id for member in old.members]
        assert new.candidates == [] and new.log_end == old.log_end
    assert all(FORGED not in log for log in group.logs().values())
    asyncio.run(group.send_all(1))


def test_no_answer_shows_the_secret(group: Group) -> None:
    home = Path(os.environ["HOME"])
    (file,) = (path for path in (home / ".pymq" / "raft").iterdir() if path.name.startswith(f"{NAME}-"))
    assert file.stat().st_mode & 0o777 == 0o600
    secret = decode_secrets(file.read_bytes(), "f").first
    codes = [
        RequestCode.PYMQ_GET_REPLICATION_STATUS, RequestCode.PYMQ_RAFT_NODE, RequestCode.GET_BROKER_CONFIG,
        RequestCode.GET_BROKER_RUNTIME_INFO,
    ]  # fmt: skip
    for node in group.nodes:
        shown = group.processes.output(node).encode()
        for code in codes:
            body = msgspec.json.encode(ReportRequest("5" * 64)) if code == RequestCode.PYMQ_RAFT_NODE else b""
            answer = group.ask(node, request(code, None, body))
            shown += bytes(answer.body) + repr(answer.ext).encode() + (answer.remark or "").encode()
        for form in (secret, secret.hex().encode(), secret.hex().upper().encode()):
            assert form not in shown
        assert (
            RAFT_PROOF
            in group.ask(
                node, request(RequestCode.PYMQ_RAFT_NODE, None, msgspec.json.encode(ReportRequest("5" * 64)))
            ).ext
        )


@pytest.mark.slow
def test_a_broker_with_another_secret_does_not_join(group: Group, tmp_path: Path) -> None:
    """It has the address and the settings of a member, and an empty disk, as a new disk of that member has."""
    leader = group.leader
    node = next(node for node in group.nodes if node != leader)
    disks = {member.node: member.disk_id for member in group.state(leader).members}
    secret, directory = tmp_path / "raft.secret", group.processes.directory
    write_secrets(RealFiles(), str(secret), Secrets(b"s" * 32))
    group.processes.stop(node)
    group.processes.root(node).rename(directory / "away")
    group.processes._settings["raftSecretFile"] = str(secret)
    try:
        group.processes.start(node)
        eventually(lambda: f"the report of {leader}: its answer does not prove" in group.processes.output(node), WAIT_S)
        assert {member.node: member.disk_id for member in group.state(leader).members} == disks
        assert group.state(leader).candidates == []
        asyncio.run(group.send_all(1))
    finally:
        del group.processes._settings["raftSecretFile"]
        group.processes.kill(node)
        group.processes.root(node).rename(directory / "stranger")
        (directory / "away").rename(group.processes.root(node))
        group.processes.start(node)
    eventually(lambda: all(is_back(group, each) for each in group.nodes), WAIT_S)


def is_back(group: Group, node: str) -> bool:
    try:
        socket.create_connection(("127.0.0.1", group.processes.ports[node])).close()
        state = group.state(node)
    except (OSError, AssertionError, msgspec.MsgspecError):
        return False
    return bool(state.leader) and state.log_end == group.state(state.leader).confirm_offset


@pytest.mark.slow
def test_a_damaged_log_is_mended_from_the_others_and_does_not_lead(group: Group) -> None:
    eventually(lambda: all(is_back(group, each) for each in group.nodes), WAIT_S)
    node = group.leader
    end = group.state(node).log_end
    group.processes.stop(node)
    path, rng = group.processes.root(node) / "commitlog" / f"{0:020d}", random.Random(3)
    before = path.read_bytes()[:end]
    with path.open("r+b") as file:
        for _ in range(12):
            file.seek(rng.randrange(end - 16))
            file.write(rng.randbytes(16))
    group.processes.start(node)
    eventually(lambda: is_back(group, node) and path.read_bytes()[:end] == before, WAIT_S)
    assert "mended with bytes of" in group.processes.output(node)
    eventually(lambda: not group.state(node).problems, WAIT_S)
