"""A name server and broker in one thread-per-connection server: enough for planning and pulling."""

from __future__ import annotations

import json
import socket
import threading
from collections import Counter, defaultdict
from collections.abc import Callable

from pymq.model.names import is_system_topic
from pymq.spark.planning.ranges import QueueRange
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import FLAG_RESPONSE, Command, decode_command, encode_command

BROKER = "broker-a"


class FakeCluster:
    """Queues of records by (topic, queue id). ``count_cap`` and ``bytes_cap`` limit an answer, as in real brokers."""

    def __init__(self, *, count_cap: int = 32, bytes_cap: int = 1 << 20) -> None:
        self.queues: dict[tuple[str, int], list[bytes]] = defaultdict(list)
        self.min_offsets: dict[tuple[str, int], int] = defaultdict(int)
        self.committed: dict[tuple[str, str, int], int] = {}
        self.groups: set[str] | None = None
        """The groups that it takes offsets of, as Apache's broker does; None takes any, as PyMQ's does."""
        self.count_cap = count_cap
        self.bytes_cap = bytes_cap
        self.pulls: list[dict[str, str]] = []
        self.asked: Counter[int] = Counter()
        """The requests of each code."""
        self.answers: list[int] = []
        """Codes to answer the next pulls with, before anything else; -1 closes the connection."""
        self.remark = "scripted"
        self.has_stats = True
        self.lists_entries = True
        """Whether it says the sizes of messages."""
        self.deleted_below: dict[str, int] | None = None
        """What a PyMQ broker says of topics' deletions; None stands for one of RocketMQ."""
        self.brokers: dict[str, str] = {}
        """The addresses of the broker's name by id, when it is not alone and the master."""
        self.is_registered = True
        """Whether the name server knows the broker, which answers also when not."""
        self.silent: Counter[int] = Counter()
        """How many requests of a code get no answer."""
        self.filter_servers: list[str] = []
        self.select: Callable[[bytes, str], bool] | None = None
        """Broker-side filter: (raw record, subscription) -> bool."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._connections: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def add(self, topic: str, queue_id: int, records: list[bytes]) -> None:
        """Append records, whose offsets must continue at the queue's end."""
        self.queues[topic, queue_id] += records

    def range(
        self, topic: str = "T", queue_id: int = 0, start: int | None = None, stop: int | None = None
    ) -> QueueRange:
        """Return a range of a queue, by default the whole queue."""
        first = self.min_offsets[topic, queue_id] if start is None else start
        last = len(self.queues[topic, queue_id]) if stop is None else stop
        return QueueRange(topic, BROKER, queue_id, first, last, (self.address,))

    def make_again(self, topic: str, *queues: list[bytes]) -> None:
        """Delete a topic, and make it again with these records."""
        for key in [key for key in self.queues if key[0] == topic]:
            del self.queues[key]
        for queue_id, records in enumerate(queues):
            self.add(topic, queue_id, records)
        if self.deleted_below is not None:
            self.deleted_below[topic] = self.deleted_below.get(topic, 0) + 1000

    def close(self) -> None:
        self._listener.close()
        for connection in self._connections:
            connection.close()

    def __enter__(self) -> FakeCluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._connections.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        stream = connection.makefile("rb")
        try:
            while head := stream.read(4):
                command = decode_command(stream.read(int.from_bytes(head, "big")))
                if self.silent[command.code]:
                    self.silent[command.code] -= 1
                    continue
                answer = self._answer(command)
                if answer is None:
                    break
                answer.opaque, answer.flag = command.opaque, FLAG_RESPONSE
                connection.sendall(encode_command(answer))
        except (OSError, ValueError):
            pass
        finally:
            stream.close()
            connection.close()

    def _answer(self, command: Command) -> Command | None:
        ext = command.ext
        self.asked[command.code] += 1
        if command.code == RequestCode.PULL_MESSAGE:
            return self._pull(ext)
        if command.code == RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER:
            topics = sorted({topic for topic, _ in self.queues} | {"TBW102", BROKER, "DefaultCluster", "%RETRY%g"})
            return Command(0, body=json.dumps({"topicList": topics}).encode())
        if command.code == RequestCode.GET_BROKER_CLUSTER_INFO:
            # Bare number keys, as Java's fastjson writes them.
            addresses = f'{{"brokerAddrs":{{0:"{self.address}"}},"brokerName":"{BROKER}","cluster":"DefaultCluster"}}'
            brokers = f'"{BROKER}":{addresses}' if self.is_registered else ""
            text = f'{{"brokerAddrTable":{{{brokers}}},"clusterAddrTable":{{"DefaultCluster":["{BROKER}"]}}}}'
            return Command(0, body=text.encode())
        if command.code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
            return self._route(ext["topic"])
        if command.code == RequestCode.GET_TOPIC_STATS_INFO:
            return self._stats(ext["topic"])
        if command.code == RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP:
            assert self.groups is not None
            self.groups.add(json.loads(command.body)["groupName"])
            return Command(0)
        if command.code == RequestCode.QUERY_CONSUME_QUEUE and self.lists_entries:
            return self._entries(ext)
        return self._offset(command)

    def _entries(self, ext: dict[str, str]) -> Command:
        key, first = (ext["topic"], int(ext["queueId"])), int(ext["index"])
        low, count = self.min_offsets[key], min(int(ext["count"]), 1000)
        found = self.queues[key][first : first + count] if first >= low else []
        data = [
            {"physicOffset": int.from_bytes(raw[28:36], "big"), "physicSize": len(raw), "tagsCode": 0} for raw in found
        ]
        body = {"minQueueIndex": low, "maxQueueIndex": len(self.queues[key]), "queueData": data}
        return Command(0, body=json.dumps(body).encode())

    def _stats(self, topic: str) -> Command:
        if not self.has_stats:
            return Command(ResponseCode.NO_PERMISSION, remark="scripted")
        # Objects as keys, as Java's fastjson writes them.
        offsets = ",".join(
            f'{{"brokerName":"{BROKER}","queueId":{queue_id},"topic":"{topic}"}}:'
            f'{{"lastUpdateTimestamp":0,"maxOffset":{len(self.queues[key])},"minOffset":{self.min_offsets[key]}}}'
            for key in list(self.queues)
            for name, queue_id in [key]
            if name == topic
        )
        body = f'{{"offsetTable":{{{offsets}}},"topicPutTps":0.0}}'.encode()
        ext = {} if self.deleted_below is None else {"pymqDeletedBelow": str(self.deleted_below.get(topic, 0))}
        return Command(0, ext=ext, body=body)

    def _route(self, topic: str) -> Command:
        ids = [queue_id for name, queue_id in self.queues if name == topic]
        if not ids or not self.is_registered:
            return Command(ResponseCode.TOPIC_NOT_EXIST, remark=f"No topic route info in name server for: {topic}")
        assert not is_system_topic(topic)
        queue = {"brokerName": BROKER, "readQueueNums": max(ids) + 1, "writeQueueNums": 1, "perm": 6, "topicSysFlag": 0}
        broker = {"brokerName": BROKER, "cluster": "DefaultCluster", "brokerAddrs": self.brokers or {"0": self.address}}
        body = {
            "queueDatas": [queue],
            "brokerDatas": [broker],
            "filterServerTable": {self.address: self.filter_servers},
        }
        return Command(0, body=json.dumps(body).encode())

    def _offset(self, command: Command) -> Command:
        ext = command.ext
        key = ext["topic"], int(ext["queueId"])
        if command.code == RequestCode.GET_MIN_OFFSET:
            offset = self.min_offsets[key]
        elif command.code == RequestCode.GET_MAX_OFFSET:
            offset = len(self.queues[key])
        elif command.code == RequestCode.SEARCH_OFFSET_BY_TIMESTAMP:
            times = [int.from_bytes(raw[56:64], "big") for raw in self.queues[key]]
            offset = sum(time < int(ext["timestamp"]) for time in times)
        elif command.code == RequestCode.UPDATE_CONSUMER_OFFSET:
            if self.groups is not None and ext["consumerGroup"] not in self.groups:
                return Command(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark="no group")
            self.committed[ext["consumerGroup"], *key] = int(ext["commitOffset"])
            return Command(0)
        elif command.code == RequestCode.QUERY_CONSUMER_OFFSET:
            found = self.committed.get((ext["consumerGroup"], *key))
            if found is None:
                return Command(ResponseCode.QUERY_NOT_FOUND, remark="no offset")
            offset = found
        else:
            return Command(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=f"no {command.code}")
        return Command(0, ext={"offset": str(offset)})

    def _pull(self, ext: dict[str, str]) -> Command | None:
        self.pulls.append(ext)
        key = ext["topic"], int(ext["queueId"])
        low, high, offset = self.min_offsets[key], len(self.queues[key]), int(ext["queueOffset"])
        if self.answers:
            code = self.answers.pop(0)
            return None if code < 0 else Command(code, remark=self.remark, ext=_pull_ext(offset, low, high))
        known = ext.get("pymqDeletedBelow")
        if self.deleted_below is not None and known and self.deleted_below.get(key[0], 0) > int(known):
            return Command(ResponseCode.TOPIC_NOT_EXIST, remark="made again")
        if offset < low or offset > high:
            return Command(ResponseCode.PULL_OFFSET_MOVED, ext=_pull_ext(low if offset < low else high, low, high))
        if offset == high:
            return Command(ResponseCode.PULL_NOT_FOUND, ext=_pull_ext(offset, low, high))
        found: list[bytes] = []
        at, size = offset, 0
        while at < min(high, len(self.queues[key])) and at - offset < min(self.count_cap, int(ext["maxMsgNums"])):
            raw = self.queues[key][at]
            if found and size + len(raw) > min(self.bytes_cap, int(ext["maxMsgBytes"])):
                break
            if self.select is None or self.select(raw, ext["subscription"]):
                found.append(raw)
                size += len(raw)
            at += 1
        code = ResponseCode.SUCCESS if found else ResponseCode.PULL_RETRY_IMMEDIATELY
        return Command(code, ext=_pull_ext(at, low, high), body=b"".join(found))


def _pull_ext(next_offset: int, low: int, high: int) -> dict[str, str]:
    fields = {"suggestWhichBrokerId": 0, "nextBeginOffset": next_offset, "minOffset": low, "maxOffset": high}
    return {name: str(value) for name, value in fields.items()}
