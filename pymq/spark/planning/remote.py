"""A small blocking connection to a name server or broker, for Spark's tasks: no threads, no event loop."""

from __future__ import annotations

import socket
from collections.abc import Callable

from pymq.errors import ProtocolViolation, RefusedError, RequestTimeoutError, UnreachableError
from pymq.model.hosts import parse_address
from pymq.security.credentials import Credentials
from pymq.wire.codes import ResponseCode
from pymq.wire.command import FRAME_SIZE_MAX_BYTES, HEADER_SIZE_MAX_BYTES, Command, decode_command, encode_command

# Time for a server to answer, and for a connection to be established.
TIMEOUT_S = 30.0
CONNECT_TIMEOUT_S = 5.0
# A frame's length, the kind of its header, and the header's length.
_START_SIZE_BYTES = 8

Connect = Callable[[str, int, float], socket.socket]
Room = Callable[[int], memoryview]
"""Returns memory for so many bytes."""


def _new_room(size_bytes: int) -> memoryview:
    return memoryview(bytearray(size_bytes))


def connect_socket(host: str, port: int, timeout_s: float) -> socket.socket:
    """Return a connected TCP socket."""
    connection = socket.create_connection((host, port), timeout_s)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


class Remote:
    """One connection. Requests can be pipelined (:meth:`send`); answers arrive in any order (:meth:`receive`).

    ``address`` is "host:port". Every method raises UnreachableError when the connection can't be opened or is lost; the
    object can't be used after that.
    """

    def __init__(
        self,
        address: str,
        *,
        timeout_s: float = TIMEOUT_S,
        connect: Connect = connect_socket,
        credentials: Credentials | None = None,
    ) -> None:
        """``credentials`` sign all requests."""
        self.address = address
        self._credentials = credentials
        self._opaque = 0
        try:
            host, port = parse_address(address)
            self._socket = connect(host, port, min(timeout_s, CONNECT_TIMEOUT_S))
        except (OSError, ValueError) as error:
            raise UnreachableError(f"no connection to {address}: {error}; check the address and the server") from error
        self._socket.settimeout(timeout_s)
        self._timeout_s = timeout_s

    def send(self, command: Command) -> int:
        """Send a request and return its opaque."""
        self._opaque += 1
        command.opaque = self._opaque
        if self._credentials is not None:
            self._credentials.sign(command)
        try:
            self._socket.sendall(encode_command(command))
        except OSError as error:
            raise UnreachableError(f"{self.address}: connection lost while sending: {error}") from error
        return self._opaque

    def receive(self, room: Room = _new_room) -> Command:
        """Return the next answer; skips requests that a broker sends to clients. Its body stands in ``room``."""
        while True:
            answer = self._receive_command(room)
            if answer.is_response:
                return answer

    def ask(self, command: Command) -> Command:
        """Send a request and return its answer."""
        opaque = self.send(command)
        while True:
            answer = self.receive()
            if answer.opaque == opaque:
                return answer

    def ask_ok(self, command: Command) -> Command:
        """Do the same as :meth:`ask`. Raises RefusedError for any code other than success."""
        answer = self.ask(command)
        if answer.code != ResponseCode.SUCCESS:
            raise RefusedError(answer.code, answer.remark, self.address)
        return answer

    def close(self) -> None:
        """Close the connection; a second call does nothing."""
        self._socket.close()

    def __enter__(self) -> Remote:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _receive_command(self, room: Room) -> Command:
        start = self._receive(_new_room(_START_SIZE_BYTES))
        size = int.from_bytes(start[:4], "big")
        header_size = int.from_bytes(start[5:], "big")
        if not 4 <= size <= FRAME_SIZE_MAX_BYTES:
            raise UnreachableError(f"{self.address} sent a frame of {size} bytes: it does not speak this protocol")
        if header_size > min(size - 4, HEADER_SIZE_MAX_BYTES):
            raise UnreachableError(
                f"{self.address} sent a frame of {size} bytes with a header of {header_size}: it does not speak this "
                "protocol"
            )
        header = self._receive(_new_room(header_size))
        try:
            command = decode_command(bytes(start[4:]) + bytes(header))
        except ProtocolViolation as error:
            raise UnreachableError(f"{self.address} sent a frame that can't be read: {error}") from error
        body_size = size - 4 - header_size
        if body_size:
            # A view works like bytes here: it is only sliced and decoded.
            command.body = self._receive(room(body_size))  # type: ignore[assignment]
        return command

    def _receive(self, view: memoryview) -> memoryview:
        """Fill the memory from the socket."""
        at, size = 0, len(view)
        try:
            while at < size:
                count = self._socket.recv_into(view[at:])
                if not count:
                    raise UnreachableError(f"{self.address} closed the connection")
                at += count
        except TimeoutError as error:
            raise RequestTimeoutError(f"{self.address} did not answer within {self._timeout_s:g} s") from error
        except OSError as error:
            raise UnreachableError(f"{self.address}: connection lost: {error}") from error
        return view
