"""The administrative calls that measurements need, blocking, on a separate socket."""

import socket
import ssl
import time
from collections.abc import Callable
from typing import Any

from bench import answers, frames

UPDATE_AND_CREATE_TOPIC = 17
GET_MAX_OFFSET = 30
GET_BROKER_CLUSTER_INFO = 106
TIMEOUT_S = 20.0
SETTLE_DEADLINE_S = 60.0


class BenchError(Exception):
    """A measurement failed; the text has the answer of the other side."""


def connect(address: str, timeout_s: float | None = TIMEOUT_S) -> socket.socket:
    """Returns a connected TCP socket without Nagle and with large buffers; ``address`` is ``host:port``."""
    host, _, port = address.rpartition(":")
    sock = socket.create_connection((host, int(port)), timeout=TIMEOUT_S)
    sock.settimeout(timeout_s)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
    return sock


def connect_tls(address: str) -> ssl.SSLSocket:
    """Returns a connected socket as :func:`connect`, with TLS of any server."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context.wrap_socket(connect(address, None))


class Control:
    """One connection to a broker or name server for single requests."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._sock = connect(address)
        self._cutter = answers.FrameCutter()
        self._opaque = 0

    def close(self) -> None:
        self._sock.close()

    def __enter__(self) -> "Control":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, code: int, ext: dict[str, str], body: bytes = b"") -> tuple[dict[str, Any], bytes]:
        """Sends a request and returns header and body of the answer.

        Raises:
            BenchError: the connection was closed.
        """
        self._opaque += 1
        self._sock.sendall(frames.encode_json(code, self._opaque, ext, body))
        while True:
            data = self._sock.recv(1 << 16)
            if not data:
                raise BenchError(f"{self.address} closed the connection on request code {code}")
            for frame in self._cutter.feed(data):
                header, answer_body = answers.split_answer(frame)
                if header["opaque"] == self._opaque and header.get("flag", 0) & 1:
                    return header, answer_body

    def expect(self, code: int, ext: dict[str, str], body: bytes = b"") -> dict[str, Any]:
        """Sends a request and returns the answer's header.

        Raises:
            BenchError: the answer's code is not 0.
        """
        header, _ = self.ask(code, ext, body)
        if header["code"] != 0:
            raise BenchError(
                f"{self.address} refused request {code}: code {header['code']}, {header.get('remark', 'no remark')}"
            )
        return header

    def create_topic(self, topic: str, queues: int, attributes: str = "") -> None:
        """Creates ``topic`` on this broker with ``queues`` read and write queues. ``attributes``: "+name=value"."""
        ext = {
            "topic": topic,
            "defaultTopic": "TBW102",
            "readQueueNums": str(queues),
            "writeQueueNums": str(queues),
            "perm": "6",
            "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": "0",
            "order": "false",
        }
        if attributes:
            ext["attributes"] = attributes
        self.expect(UPDATE_AND_CREATE_TOPIC, ext)

    def max_offsets(self, topic: str, queues: int) -> list[int]:
        """Returns the next offset of each queue, below which messages are stored and dispatched."""
        offsets = []
        for queue in range(queues):
            header = self.expect(GET_MAX_OFFSET, {"topic": topic, "queueId": str(queue)})
            offsets.append(int(header["extFields"]["offset"]))
        return offsets


def wait_until(condition: Callable[[], bool], what: str, deadline_s: float = SETTLE_DEADLINE_S) -> None:
    """Polls ``condition`` until true.

    Raises:
        BenchError: it was still false after ``deadline_s``.
    """
    end = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > end:
            raise BenchError(f"waited {deadline_s:.0f} s without success for {what}")
        time.sleep(0.02)
