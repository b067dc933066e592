"""Stories: faults at chosen moments, which random faults would hit only in thousands of seeds.

A story takes the place of a plan's faults on a cluster; the checkers look as always. A story reports its own failed
expectations as violations.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from pymq.broker.replication.tables.replicated_tables import GROUPS, TOPICS
from pymq.errors import RefusedError
from pymq.model.record import decode_records
from pymq.model.tables import SubscriptionGroupConfig
from pymq.wire.codes import RequestCode
from pymq.wire.command import Command
from tests.simulation.broker_node import ROOT, SimBroker
from tests.simulation.clients import TOPIC, send_request, topic_request
from tests.simulation.history import ACKED, Commit
from tests.simulation.master_slave.cluster import LOOK_US as FOLLOWING_LOOK_US
from tests.simulation.master_slave.cluster import MasterSlave
from tests.simulation.master_slave.offsets import COPIED_US
from tests.simulation.master_slave.operating import OTHER_TOPICS
from tests.simulation.master_slave.pieces import is_between_pieces, next_entry
from tests.simulation.master_slave.plan import MIN_ENTRIES_MAX
from tests.simulation.master_slave.story_plans import plan_of
from tests.simulation.network import Link, SimStream
from tests.simulation.simulating import Report, simulate
from tests.simulation.timeline import MS, SECOND

GROUP = "G-of-the-story"
SOON_US = 30 * SECOND
LOOK_US = 5 * MS
SENDS_TO_LOSE = 20
LARGE_COUNT, LARGE_BYTES = 250, 30_000  # several times what an HaConnection sends in a turn


class Stage:
    """What a story may do to its cluster."""

    def __init__(self, cluster: MasterSlave) -> None:
        self.cluster = cluster
        self.master, self.slave = cluster.brokers[:2]  # their roles at the start

    async def wait(self, duration_us: int) -> None:
        await self.cluster.operator.sleep(duration_us)

    async def until(self, is_true: Callable[[], bool], what: str, limit_us: int = SOON_US) -> bool:
        """Wait until it is true. Return False and record a violation when that takes too long."""
        end_us = self.cluster.timeline.now_us + limit_us
        while not is_true():
            if self.cluster.timeline.now_us >= end_us:
                self.cluster.history.violated(f"{what} did not come to be within {limit_us // SECOND} s")
                return False
            await self.wait(LOOK_US)
        return True

    def follows(self) -> bool:
        """Return whether the slave copies its master."""
        parts = self.slave.parts
        return parts is not None and parts.side.is_following

    # -- what happens to machines and links -----------------------------------------------------------------------

    def kill(self, broker: SimBroker) -> None:
        self.cluster.history.faults["kill a broker"] += 1
        self.cluster.note_death(broker, "kill")
        broker.kill()

    def lose_power(self, broker: SimBroker) -> None:
        self.cluster.history.faults["power loss of a broker"] += 1
        self.cluster.note_death(broker, "power")
        broker.lose_power()

    def streams(self, port: str) -> list[SimStream]:
        """Return the slave's connections to the master's ``port`` ("10911", "10912")."""
        target = f"{self.master.host}:{port}"
        return [
            stream
            for stream in self.cluster.network.streams
            if stream.local_host == self.slave.host and stream.peer_address == target
        ]

    def silence(self, port: str) -> None:
        """Make the slave's connections to the master's ``port`` carry nothing, without a notice to either end."""
        self.cluster.history.faults["half-open connections"] += 1
        for stream in self.streams(port):
            stream.is_half_open = stream.other.is_half_open = True

    def cut(self) -> set[tuple[str, str]]:
        """Separate master and slave, and break their connections. Return the cut directions."""
        self.cluster.history.faults["partition"] += 1
        hosts = {self.master.host, self.slave.host}
        cuts = {(here, there) for here in hosts for there in hosts if here != there}
        self.cluster.network.cuts |= cuts
        for stream in list(self.cluster.network.streams):
            if {stream.local_host, stream.peer_host} == hosts:
                stream.break_now("connection lost")
        return cuts

    def slow_down(self, link: Link) -> None:
        """Let traffic between master and slave behave as ``link``."""
        self.cluster.history.faults["slow network"] += 1
        for pair in ((self.master.host, self.slave.host), (self.slave.host, self.master.host)):
            self.cluster.network.links[pair] = link

    # -- what clients and the operator do -------------------------------------------------------------------------

    def is_level(self) -> bool:
        """Return whether the slave has all of its master's log."""
        ends = [broker.parts.store.physical_max_offset for broker in (self.master, self.slave) if broker.parts]
        return len(ends) == 2 and ends[0] == ends[1]

    async def send(self, body: bytes) -> None:
        """Send to a topic that the producers do not use. Raises PymqError."""
        await self.cluster.operator.client.invoke_ok(self.master.address, send_request(OTHER_TOPICS[0], body))

    async def make_group(self, name: str = GROUP) -> None:
        """Create the story's group, or another one. Raises PymqError."""
        body = msgspec.json.encode(SubscriptionGroupConfig(group_name=name))
        command = Command(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)
        await self.cluster.operator.client.invoke_ok(self.master.address, command)

    async def make_topic(self, name: str) -> None:
        """Create a topic with one queue. Raises PymqError."""
        await self.cluster.operator.client.invoke_ok(self.master.address, topic_request(name, 1))

    async def delete_topic(self, name: str) -> None:
        """Delete a topic. Raises PymqError."""
        command = Command(RequestCode.DELETE_TOPIC_IN_BROKER, ext={"topic": name})
        await self.cluster.operator.client.invoke_ok(self.master.address, command)

    async def commit(self, broker: SimBroker, offset: int) -> None:
        """Commit an offset of the story's group in queue 0. Raises PymqError."""
        fields = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "0", "commitOffset": str(offset)}
        command = Command(RequestCode.UPDATE_CONSUMER_OFFSET, ext=fields, version=479)
        operator, history = self.cluster.operator, self.cluster.history
        await operator.client.invoke_ok(broker.address, command)
        now_us, epoch = operator.now_us, broker.entry[0]
        history.commits.append(Commit(now_us, GROUP, 0, offset, broker.address, broker.is_master, epoch))

    async def pop(self, broker: SimBroker) -> set[bytes]:
        """Pop for the story's group, without an acknowledgement. Raises PymqError."""
        fields = {
            "consumerGroup": GROUP, "topic": TOPIC, "queueId": "-1", "maxMsgNums": "8", "invisibleTime": "3000",
            "pollTime": "0", "bornTime": "0", "initMode": "0",
        }  # fmt: skip
        command = Command(RequestCode.POP_MESSAGE, ext=fields, version=479)
        try:
            answer = await self.cluster.operator.client.invoke_ok(broker.address, command)
        except RefusedError:  # nothing is there
            return set()
        return {message.body for message in decode_records(answer.body)}

    def committed(self, broker: SimBroker) -> int:
        """Return the offset that the broker has now; -1 while it is not open."""
        return broker.parts.metadata.cursors.query(GROUP, TOPIC, 0) if broker.parts is not None else -1

    def names(self, broker: SimBroker) -> set[str]:
        """Return the names of the broker's topics and groups."""
        if broker.parts is None:
            return set()
        metadata = broker.parts.metadata
        return {*metadata.topics.as_table()["topicConfigTable"], *metadata.groups.as_table()["subscriptionGroupTable"]}

    def has_all_names(self) -> bool:
        """Return whether the slave has its master's topics and groups."""
        return self.names(self.slave) >= self.names(self.master) and not is_between_pieces(self.slave)

    def acked_count(self) -> int:
        """Return the number of acknowledged sends."""
        return sum(send.outcome == ACKED for send in self.cluster.history.sends)

    async def recover_tail(self) -> None:
        """Wait until the slave follows; the master must have got back what its disk did not have."""
        await self.until(lambda: self.follows() and self.is_level(), "a slave that follows again", 2 * SOON_US)
        parts = self.master.parts
        if parts is None or parts.replication.tail_recovery.recovered_tail is None:
            self.cluster.history.violated(f"{self.master.name} recovered nothing")

    def log_end(self, broker: SimBroker) -> int:
        return broker.parts.store.physical_max_offset if broker.parts is not None else 0

    async def grow(self) -> None:
        """Wait for another message in the master's log."""
        end = self.log_end(self.master)
        await self.until(lambda: self.log_end(self.master) > end, "another message")

    def queue_end(self, broker: SimBroker) -> int:
        """Return the end of queue 0 that the broker shows."""
        return broker.parts.store.max_offset(TOPIC, 0) if broker.parts is not None else 0

    async def fail_over(self) -> None:
        """Kill the master, and wait until the slave has taken over."""
        operator = self.cluster.operator
        self.kill(self.master)
        operator.fail_over()
        await self.until(lambda: not operator.is_busy and self.slave.is_master, "the fail-over")

    async def hand_over(self, on_step: Callable[[str], None] = lambda text: None) -> None:
        """Hand over to the slave, and wait until it is the master. ``on_step`` gets the text of each step."""
        operator = self.cluster.operator
        operator.hand_over_to(self.slave, on_step)
        await self.until(lambda: not operator.is_busy and self.slave.is_master, "the hand-over", 4 * SOON_US)


Story = Callable[[Stage], Awaitable[None]]


async def hand_over_while_the_log_stands_still(stage: Stage) -> None:
    """The connection for the log is half open: the slave lacks what came since, and thinks that it follows."""
    stage.silence("10912")
    await stage.wait(SECOND)
    await stage.hand_over()


async def hand_over_while_tables_stand_still(stage: Stage) -> None:
    """A group commits, and the slave's question for tables got lost."""
    stage.silence("10911")
    await stage.commit(stage.master, stage.queue_end(stage.master))
    await stage.hand_over()


async def hand_over_and_truncate(stage: Stage) -> None:
    """Master and slave lose each other at the moment when the slave has everything."""
    cluster = stage.cluster

    def on_step(text: str) -> None:
        if "steps down" in text:
            cuts = stage.cut()
            cluster.timeline.after(10 * SECOND, lambda: cluster.network.heal(cuts))

    # The operator is far away: it does not see what is written after it looked at both.
    far = Link(300 * MS, 0, 0.0)
    for broker in (stage.master, stage.slave):
        for pair in ((cluster.operator.process.host, broker.host), (broker.host, cluster.operator.process.host)):
            cluster.network.links[pair] = far
    await stage.hand_over(on_step)


async def commit_to_a_slave(stage: Stage) -> None:
    """A group commits to the slave while the master is away: the offset never goes back, and the master gets it."""
    await stage.commit(stage.master, 1)
    await stage.until(lambda: stage.committed(stage.slave) == 1, "a slave with the table of offsets")
    await stage.wait(8 * SECOND)  # until it is saved
    stage.kill(stage.master)
    await stage.wait(SECOND)
    await stage.commit(stage.slave, 2)
    newest = 0

    def is_known() -> bool:
        nonlocal newest
        now = stage.committed(stage.slave)
        if 0 <= now < newest:
            stage.cluster.history.violated(f"{GROUP} went back from {newest} to {now} on {stage.slave.name}")
        newest = max(newest, now)
        return stage.committed(stage.master) == 2

    stage.slow_down(Link(200 * MS, 0, 0.0))
    stage.master.start()
    await stage.until(is_known, "a commit to a slave, on its master,", 2 * SOON_US)
    await stage.until(lambda: is_known() and stage.follows(), "a slave that follows")


async def commit_to_a_slave_twice(stage: Stage) -> None:
    """The second commit comes while the first is on its way to the master."""
    await stage.commit(stage.master, 1)
    await stage.wait(8 * SECOND)
    stage.kill(stage.master)
    await stage.wait(SECOND)
    await stage.commit(stage.slave, 2)
    stage.slow_down(Link(300 * MS, 0, 0.0))
    stage.master.start()
    await stage.until(lambda: stage.committed(stage.master) == 2, "a commit to a slave, on its master,", 2 * SOON_US)
    await stage.commit(stage.slave, 3)  # the answer is still under way
    await stage.wait(5 * SECOND)


async def commit_to_a_slave_what_its_master_hides(stage: Stage) -> None:
    """The slave's disk is slow: it shows a message before it reports it, and its master shows it only after that."""
    stage.cluster.history.faults["slow disk"] += 1
    stage.slave.disk.sync_delay_us = SECOND
    await stage.until(lambda: stage.queue_end(stage.slave) > stage.queue_end(stage.master) > 0, "a hidden message")
    offset = stage.queue_end(stage.slave)
    await stage.commit(stage.slave, offset)
    await stage.until(lambda: stage.committed(stage.master) == offset, "a commit to a slave, on its master,")


async def fail_over_with_what_came_last(stage: Stage) -> None:
    """The slave has an offset in its memory, not in its file."""
    offset = 0
    while _saved(stage.slave, "consumerOffset", "offsetTable") == offset:
        offset += 1
        await stage.commit(stage.master, offset)
        while stage.committed(stage.slave) < offset:
            await stage.wait(MS)
    await stage.fail_over()


async def fail_over_with_what_came_behind_a_copy(stage: Stage) -> None:
    """The slave follows its master for seconds after a commit."""
    await stage.commit(stage.master, 1)
    await stage.until(lambda: stage.committed(stage.slave) == 1, "a slave with the table of offsets")
    await stage.commit(stage.master, 2)
    await stage.wait(COPIED_US + 2 * FOLLOWING_LOOK_US)
    await stage.fail_over()


async def fail_over_between_two_pieces(stage: Stage) -> None:
    """Master and slave lose each other when the slave has some pieces of the topics, or groups; at last it takes over.

    Until it has all pieces, it goes on with the whole tables that it had before.
    """
    stage.slow_down(Link(10 * MS, 0, 0.0))
    for table in (TOPICS, GROUPS, TOPICS):
        if not await stage.until(stage.has_all_names, "a slave with all topics and groups"):
            return
        before, made = stage.names(stage.slave), f"{table}-{stage.cluster.timeline.now_us}"
        if table == TOPICS:
            await stage.make_topic(made)
        else:
            await stage.make_group(made)
        await stage.until(lambda name=table: is_between_pieces(stage.slave, name), f"some pieces of {table}")
        cuts = stage.cut()
        if lost := before - stage.names(stage.slave):
            stage.cluster.history.violated(f"some pieces of {table} took {sorted(lost)} away")
        stage.cluster.network.heal(cuts)
    await stage.fail_over()
    if lost := before - stage.names(stage.slave):
        stage.cluster.history.violated(f"{stage.slave.name} took over without {sorted(lost)}")


async def delete_a_topic_between_two_pieces(stage: Stage) -> None:
    """The slave has the piece with a topic when it loses its master, which deletes the topic, and starts again."""
    stage.slow_down(Link(10 * MS, 0, 0.0))
    for number in range(6):
        await stage.make_topic(f"made{number}")
    await stage.until(stage.has_all_names, "a slave with all topics")
    assert stage.master.parts is not None
    place = list(stage.master.parts.metadata.topics.as_table()["topicConfigTable"]).index("made0")
    await stage.make_topic("made6")
    await stage.until(lambda: next_entry(stage.slave, TOPICS) > place, "the piece with the topic")
    cuts = stage.cut()
    await stage.delete_topic("made0")
    stage.kill(stage.master)
    stage.master.start()
    stage.cluster.network.heal(cuts)
    await stage.until(lambda: "made6" in stage.names(stage.slave), "a slave with the new topic")
    if "made0" in stage.names(stage.slave):
        stage.cluster.history.violated(f"{stage.slave.name} has a topic that its master had deleted")


async def fail_over_without_check_points(stage: Stage) -> None:
    """The slave has messages that are popped, not the check point of the pop: they come again."""
    await stage.until(lambda: stage.queue_end(stage.slave) > SENDS_TO_LOSE, "messages on the slave")
    stage.silence("10912")
    popped = await stage.pop(stage.master)
    await stage.wait(2 * SECOND)  # the slave copies tables
    await stage.fail_over()
    end_us, again = stage.cluster.timeline.now_us + SOON_US, set[bytes]()
    while not popped <= again and stage.cluster.timeline.now_us < end_us:
        again |= await stage.pop(stage.slave)
        await stage.wait(100 * MS)
    if not popped or not popped <= again:
        stage.cluster.history.violated(f"of {len(popped)} messages that were popped, {len(popped & again)} came again")


async def start_a_slave_as_the_master(stage: Stage) -> None:
    """A slave dies between two of its saves, with only its pending offsets on the disk, and starts with id 0."""
    stage.kill(stage.master)
    await stage.wait(SECOND)
    slave, offset = stage.slave, 1
    while True:
        await stage.commit(slave, offset)
        while _saved(slave, "pendingOffsets", "pendingOffsets") < offset:
            await stage.wait(MS)
        if _saved(slave, "consumerOffset", "offsetTable") < offset:
            break
        offset += 1
    stage.kill(slave)
    slave.configured_id = 0
    slave.start()
    await stage.until(lambda: slave.is_master, "a master")
    if stage.committed(slave) != offset:
        stage.cluster.history.violated(f"{GROUP} stands at {stage.committed(slave)}, {offset} was on the disk")


async def catch_up_with_megabytes(stage: Stage) -> None:
    """A slave that was away gets more than its master sends at once, over one connection and without delay."""
    stage.kill(stage.slave)
    for _ in range(LARGE_COUNT):
        await stage.send(bytes(LARGE_BYTES))
    stage.slave.start()
    await stage.until(stage.follows, "a slave that follows again")
    await stage.until(stage.is_level, "the slave's catching up", SECOND)


async def come_back_with_a_divergent_tail(stage: Stage) -> None:
    """An old master has a tail that its slave did not get, and the slave has become the master since."""
    cluster, old, new = stage.cluster, stage.master, stage.slave
    cuts, end = stage.cut(), stage.log_end(old)
    await stage.until(lambda: stage.log_end(old) > end, "a tail that the slave lacks")
    stage.kill(old)
    stage.kill(new)
    cluster.network.heal(cuts)
    new.configured_id = 0
    new.start()
    await stage.until(lambda: new.is_master, "a new master")
    cluster.history.incident(cluster.timeline.now_us, "promote", new.address, str(new.entry[0]))
    old.start()
    stage.master, stage.slave = new, old
    await stage.until(lambda: stage.follows() and stage.is_level(), "an old master that follows", 2 * SOON_US)


async def come_back_after_many_epochs(stage: Stage) -> None:
    """A slave has more of the first epoch than its master, which lost its power and died again and again since."""
    master = stage.master
    await stage.until(lambda: stage.acked_count() > SENDS_TO_LOSE, "sends to be lost")
    stage.kill(stage.slave)
    stage.lose_power(master)
    for _ in range(MIN_ENTRIES_MAX + 1):
        if master.is_alive:
            stage.kill(master)
        master.start()
        await stage.until(lambda: master.is_master, "a master")
        await stage.grow()
    stage.slave.start()
    await stage.until(lambda: stage.follows() and stage.is_level(), "a slave that follows again", 2 * SOON_US)


async def lose_the_masters_power(stage: Stage) -> None:
    """A SYNC_MASTER loses power before its own disk has what it answered for; its slave has it."""
    await stage.until(lambda: stage.acked_count() > SENDS_TO_LOSE, "sends to be lost")
    stage.lose_power(stage.master)
    await stage.wait(SECOND)
    stage.master.start()
    await stage.recover_tail()


async def lose_power_while_the_slave_is_dead(stage: Stage) -> None:
    """The slave dies and its SYNC_MASTER loses power; the master comes up first."""
    await stage.until(lambda: stage.acked_count() > SENDS_TO_LOSE, "sends to be lost")
    stage.kill(stage.slave)
    stage.lose_power(stage.master)
    await stage.wait(SECOND)
    stage.master.start()
    await stage.wait(SOON_US)
    stage.slave.start()
    await stage.recover_tail()


def _saved(broker: SimBroker, table: str, member: str) -> int:
    """Return the offset of the story's group in a table on the disk, 0 if there is none."""
    node = broker.disk.files.nodes.get(f"{ROOT}/config/{table}.json")
    try:
        saved: dict[str, Any] = json.loads(bytes(node.data)) if node is not None else {}
    except ValueError:
        return 0
    return int(saved.get(member, {}).get(f"{TOPIC}@{GROUP}", {}).get("0", 0))


STORIES: dict[str, Story] = {
    story.__name__.replace("_", " "): story
    for story in (
        hand_over_while_the_log_stands_still,
        hand_over_while_tables_stand_still,
        hand_over_and_truncate,
        commit_to_a_slave,
        commit_to_a_slave_twice,
        commit_to_a_slave_what_its_master_hides,
        fail_over_with_what_came_last,
        fail_over_with_what_came_behind_a_copy,
        fail_over_between_two_pieces,
        delete_a_topic_between_two_pieces,
        fail_over_without_check_points,
        start_a_slave_as_the_master,
        catch_up_with_megabytes,
        come_back_with_a_divergent_tail,
        come_back_after_many_epochs,
        lose_the_masters_power,
        lose_power_while_the_slave_is_dead,
    )
}  # fmt: skip


def tell(name: str, *, tracing: bool = False) -> Report:
    """Simulate a story. Raises KeyError for an unknown name."""
    story = STORIES[name]

    async def run(cluster: MasterSlave) -> None:
        stage = Stage(cluster)
        if await stage.until(stage.follows, "a slave that follows"):
            await stage.make_group()
            await story(stage)

    return simulate(plan_of(name), tracing=tracing, story=run)
