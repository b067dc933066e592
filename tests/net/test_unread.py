"""Bytes that a peer sent and the loop had not read when the connection broke, on both event loops."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable

import pytest
import uvloop

from pymq.clock import SystemClock
from pymq.net import unread
from pymq.net.server import Connection, Server
from pymq.net.server_hooks import ServerHooks
from pymq.net.unread import take_unread
from pymq.wire.access import any_user
from pymq.wire.command import Command, encode_command
from pymq.wire.dispatch import Dispatcher, Peer, Route
from pymq.wire.reply import Reply

NOTE = 501
LEAVE = 502

NewLoop = Callable[[], asyncio.AbstractEventLoop]
LOOPS = pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])


def frames(code: int, count: int) -> bytes:
    return b"".join(encode_command(Command(code, opaque=i, body=b"%04d" % i)) for i in range(count))


def served_after_leaving(new_loop: NewLoop, last_words: bytes) -> tuple[list[bytes], Server]:
    """Return the bodies of the NOTEs served for a client that sends ``last_words`` and resets the connection.

    It does so while the server handles another request of it: the answer to that one can't be written.
    """
    events: list[bytes] = []
    client = socket.socket()

    def note(request: Command, header: object, peer: Peer) -> Reply:
        events.append(request.body)
        return Reply()

    def leave(request: Command, header: object, peer: Peer) -> Reply:
        client.sendall(last_words)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # closing resets the connection
        client.close()
        return Reply()

    async def main() -> Server:
        gone = asyncio.Event()

        def on_disconnect(connection: Connection) -> None:
            events.append(b"gone")
            gone.set()

        routes = [Route(NOTE, None, note, any_user()), Route(LEAVE, None, leave, any_user())]
        server = Server(
            Dispatcher(routes, "test server"), clock=SystemClock(), hooks=ServerHooks(on_disconnect=on_disconnect)
        )
        port = await server.start("127.0.0.1", 0)
        client.setblocking(False)
        await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", port))
        await asyncio.get_running_loop().sock_sendall(client, frames(LEAVE, 1))
        await asyncio.wait_for(gone.wait(), 30)
        await server.stop()
        return server

    with asyncio.Runner(loop_factory=new_loop) as runner:
        server = runner.run(main())
    assert events[-1] == b"gone", "the handler gets the end last"
    return events[:-1], server


@LOOPS
def test_requests_in_front_of_a_reset_are_served(new_loop: NewLoop) -> None:
    served, _ = served_after_leaving(new_loop, frames(NOTE, 3))
    assert served == [b"0000", b"0001", b"0002"]


@LOOPS
def test_a_request_that_did_not_come_whole_is_dropped(new_loop: NewLoop) -> None:
    served, server = served_after_leaving(new_loop, frames(NOTE, 2)[:-1])
    assert served == [b"0000"] and not server.bad_frames


@LOOPS
def test_a_broken_frame_in_front_of_a_reset_is_counted(new_loop: NewLoop) -> None:
    served, server = served_after_leaving(new_loop, b"\x7f" * 8)
    assert not served and sum(server.bad_frames.values()) == 1


@LOOPS
def test_at_most_one_read_of_unread_bytes_is_served(new_loop: NewLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unread, "UNREAD_MAX_BYTES", len(frames(NOTE, 2)))
    served, _ = served_after_leaving(new_loop, frames(NOTE, 3))
    assert served == [b"0000", b"0001"]


def test_a_transport_without_an_open_socket_has_nothing_unread() -> None:
    with socket.socket() as closed:
        pass

    class Transport(asyncio.BaseTransport):
        def __init__(self, endpoint: socket.socket | None) -> None:
            super().__init__({"socket": endpoint})

    assert take_unread(None) == take_unread(Transport(None)) == take_unread(Transport(closed)) == b""
