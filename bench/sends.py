"""Send load: keeps a fixed number of sends in flight on each connection and counts only answers with code 0."""

import selectors
import socket
import time
from dataclasses import dataclass, field

from bench import answers, frames
from bench.control import BenchError, Control, connect, connect_tls, wait_until
from bench.result import Rate

RECEIVE_BYTES = 1 << 20
ANSWER_DEADLINE_S = 30.0
SENDS_PER_REFUSAL = 100  # tolerates one refusal in so many sends; refused sends are never counted
NUMBERS_PER_CONNECTION = 1 << 28  # messages before unique keys repeat


@dataclass(frozen=True, slots=True)
class SendPlan:
    """The parameters of a send load; ``in_flight`` is the number of frames per connection.

    ``properties`` are added to each message; ``stored_in`` is the topic with one queue that gets them instead; ``tls``:
    over TLS, without a check of the server's certificate; ``text``: bodies of words and numbers.
    """

    topic: str
    queues: int = 8
    body_bytes: int = 128
    header: int = frames.JSON_HEADER
    batch: int = 1
    connections: int = 4
    in_flight: int = 64
    properties: str = ""
    stored_in: str = ""
    tls: bool = False
    text: bool = False


@dataclass(slots=True)
class _Sender:
    sock: socket.socket
    stream: frames.SendStream
    quota: int
    counter: answers.AnswerCounter = field(default_factory=answers.AnswerCounter)
    sent: int = 0

    def send(self, count: int) -> None:
        count = min(count, self.quota - self.sent)
        while count > 0:
            view = self.stream.take(count)
            self.sock.sendall(view)
            done = len(view) // self.stream.frame_bytes
            self.sent += done
            count -= done


class SendLoad:
    """Keeps a fixed number of sends in flight on each connection; can run several times."""

    def __init__(self, address: str, plan: SendPlan, first_number: int = 0) -> None:
        self._plan = plan
        self._control = Control(address)
        self._senders = [
            _Sender(
                connect_tls(address) if plan.tls else connect(address, None),
                frames.SendStream(
                    plan.topic,
                    plan.queues,
                    plan.body_bytes,
                    plan.header,
                    plan.batch,
                    first_number + place * NUMBERS_PER_CONNECTION,
                    plan.properties,
                    plan.text,
                ),
                0,
            )
            for place in range(plan.connections)
        ]

    def close(self) -> None:
        self._control.close()
        for sender in self._senders:
            sender.sock.close()

    def warm_up(self, messages: int) -> None:
        """Sends as ``run`` does but ignores refusals: a JVM that is still compiling answers "busy"."""
        self._drive(messages)

    def run(self, messages: int) -> Rate:
        """Sends about ``messages`` (rounded up to whole frames) and waits until all of them are in their queues.

        Raises:
            BenchError: more than one send in a hundred was refused, or the queues grew by a number other than that of
                the accepted messages.
        """
        answered, refused, seconds = self._drive(messages)
        if refused * SENDS_PER_REFUSAL > answered:
            raise BenchError(f"{refused} sends were refused; the first: {self._first_refusal()}")
        return Rate(answered, seconds)

    def _drive(self, messages: int) -> tuple[int, int, float]:
        """Returns ``(messages accepted, messages refused, seconds)``."""
        plan = self._plan
        before = self._stored_count()
        frames_per_connection = -(-messages // (plan.batch * plan.connections))
        for sender in self._senders:
            sender.quota = frames_per_connection
            sender.sent = 0
            sender.counter = answers.AnswerCounter()
        start = time.perf_counter()
        self._exchange()
        seconds = time.perf_counter() - start
        answered = sum(sender.counter.succeeded for sender in self._senders) * plan.batch
        self._settle(before + answered)
        return answered, frames_per_connection * plan.connections * plan.batch - answered, seconds

    def _exchange(self) -> None:
        with selectors.DefaultSelector() as selector:
            for sender in self._senders:
                selector.register(sender.sock, selectors.EVENT_READ, sender)
                sender.send(self._plan.in_flight)
            waiting = len(self._senders)
            while waiting:
                ready = selector.select(ANSWER_DEADLINE_S)
                if not ready:
                    raise BenchError(f"no answer to a send for {ANSWER_DEADLINE_S:.0f} s")
                for key, _ in ready:
                    sender = key.data
                    data = sender.sock.recv(RECEIVE_BYTES)
                    if not data:
                        raise BenchError("the broker closed a connection under load")
                    done = sender.counter.feed(data)
                    if done:
                        sender.send(done)
                    if sender.counter.frames == sender.quota:
                        selector.unregister(sender.sock)
                        waiting -= 1

    def _first_refusal(self) -> str:
        return next((sender.counter.first_refusal for sender in self._senders if sender.counter.first_refusal), "")

    def _settle(self, expected: int) -> None:
        """Waits until the queues have all messages: an Apache broker answers before its dispatch thread adds them."""
        wait_until(
            lambda: self._stored_count() >= expected, f"the queues of {self._plan.topic} to hold {expected} messages"
        )
        count = self._stored_count()
        if count != expected:
            raise BenchError(f"{self._plan.topic} has {count} messages, expected were {expected}")

    def _stored_count(self) -> int:
        plan = self._plan
        topic, queues = (plan.stored_in, 1) if plan.stored_in else (plan.topic, plan.queues)
        return sum(self._control.max_offsets(topic, queues))
