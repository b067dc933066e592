"""RemotingClient against a scripted server: correlation, timeouts, lost connections, the server's own requests."""

from __future__ import annotations

import asyncio
import struct
from types import SimpleNamespace
from typing import Any, Never

import pytest

from pymq.clock import SystemClock
from pymq.errors import ClosedError, RefusedError, RequestTimeoutError, UnreachableError
from pymq.model.route import BrokerData
from pymq.net.client import WRITE_FRAMES, RemotingClient
from pymq.wire.codes import ResponseCode
from pymq.wire.command import FLAG_ONEWAY, Command, request
from pymq.wire.framing import FrameBuffer
from pymq.wire.reply import Reply
from tests.client.fake_broker import NO_ANSWER, FakeServer

ECHO = 901
SILENT = 902


def run(scenario: Any, **options: Any) -> None:
    """Run ``scenario(server, client)`` and close both ends afterwards."""

    async def main() -> None:
        server = await FakeServer().start()
        client = RemotingClient(clock=SystemClock(), **options)
        server.on(ECHO, lambda command: Reply(ext=dict(command.ext), body=command.body))
        server.on(SILENT, lambda command: NO_ANSWER)
        try:
            await scenario(server, client)
        finally:
            await client.close()
            await server.stop()

    asyncio.run(main())


def test_answers_in_any_order_find_their_requests() -> None:
    async def scenario(server: FakeServer, client: RemotingClient) -> None:
        others_answered = asyncio.Event()

        async def first_comes_last(command: Command) -> Any:
            if command.ext["n"] == "0":
                await others_answered.wait()
            return Reply(ext=dict(command.ext))

        server.on(ECHO, first_comes_last)
        calls = [asyncio.ensure_future(client.invoke(server.address, request(ECHO, {"n": str(n)}))) for n in range(50)]
        await asyncio.wait(calls[1:])
        assert not calls[0].done()
        others_answered.set()
        answers = await asyncio.gather(*calls)
        assert [answer.ext["n"] for answer in answers] == [str(n) for n in range(50)]
        assert len({command.opaque for command in server.requests[ECHO]}) == 50

    run(scenario)


def test_the_first_frames_of_a_long_turn_leave_before_its_end(monkeypatch: Any) -> None:
    async def scenario(server: FakeServer, client: RemotingClient) -> None:
        await client.invoke(server.address, request(ECHO))
        connection = client._connections[server.address]
        transport: Any = connection._transport
        writes: list[bytes] = []
        recorder = SimpleNamespace(write=writes.append, close=transport.close, abort=transport.abort)
        monkeypatch.setattr(connection, "_transport", recorder)
        calls = [client.call(server.address, request(ECHO, {"n": f"{n:02}"}), 30) for n in range(2 * WRITE_FRAMES + 3)]
        before_end = len(writes)
        await asyncio.sleep(0)
        counts = [len(FrameBuffer().feed(write)) for write in writes]
        assert (before_end, counts) == (2, [WRITE_FRAMES, WRITE_FRAMES, 3])
        transport.write(b"".join(writes))
        answers = await asyncio.gather(*[call for call in calls if call is not None])
        assert [int(answer.ext["n"]) for answer in answers] == list(range(2 * WRITE_FRAMES + 3))

    run(scenario)


def test_requests_carry_the_clients_language_and_version() -> None:
    async def scenario(server: FakeServer, client: RemotingClient) -> None:
        await client.invoke(server.address, request(ECHO))
        command = server.requests[ECHO][0]
        assert (command.language, command.version) == ("PYTHON", 479)

    run(scenario)


def test_many_first_requests_share_one_connection() -> None:
    async def scenario(server: FakeServer, client: RemotingClient) -> None:
        await asyncio.gather(*[client.invoke(server.address, request(ECHO)) for _ in range(20)])
        assert len(server._writers) == 1

    run(scenario)


def test_invoke_ok_raises_what_the_server_refused() -> None:
    async def scenario(server: FakeServer, client: RemotingClient) -> None:
        server.refuse(ECHO, ResponseCode.NO_PERMISSION, "not here")
        with pytest.raises(RefusedError) as caught:
            await client.invoke_ok(server.address, request(ECHO))
        assert caught.value.code == ResponseCode.NO_PERMISSION
        assert caught.value.address == server.address
        assert "not here" in str(caught.value)

    run(scenario)


def test_no_answer_in_time_fails_only_that_request() -> None:
    async def scenario(server: FakeServer, client: RemotingClient) -> None:
        silent = client.invoke(server.address, request(SILENT), 0.05)
        fine = client.invoke(server.address, request(ECHO), 5)
        results = await asyncio.gather(silent, fine, return_exceptions=True)
        assert isinstance(results[0], RequestTimeoutError)
        assert server.address in str(results[0])
        assert results[1].code == 0
        assert (await client.invoke(server.address, request(ECHO))).code == 0

    run(scenario)


def test_an_unresponsive_connection_gets_no_later_requests() -> None:
    async def scenario(server: FakeServer, client: RemotingClient) -> None:
        long_wait = asyncio.ensure_future(client.invoke(server.address, request(SILENT), 0.2))
        with pytest.raises(RequestTimeoutError):
            await client.invoke(server.address, request(SILENT), 0.05)
        await client.invoke(server.address, request(ECHO))
        assert len(server._writers) == 2
        with pytest.raises(RequestTimeoutError):  # requests that wait there keep waiting
            await long_wait

    run(scenario)


def test_a_connection_that_answers_others_is_kept() -> None:
    async def scenario(server: FakeServer, client: RemotingClient) -> None:
        late = asyncio.ensure_future(client.invoke(server.address, request(SILENT), 0.2))
        while not late.done():
            await client.invoke(server.address, request(ECHO))
        assert isinstance(late.exception(), RequestTimeoutError)
        assert len(server._writers) == 1

    run(scenario)


def test_a_short_deadline_is_kept_behind_a_long_one() -> None:
    async def scenario(server: FakeServer, client: RemotingClient) -> None:
        long_one = asyncio.ensure_future(client.invoke(server.address, request(SILENT), 60))
        await server.wait_for(SILENT)
        with pytest.raises(RequestTimeoutError):
            await asyncio.wait_for(client.invoke(server.address, request(SILENT), 0.05), 5)
        assert not long_one.done()
        long_one.cancel()

    run(scenario)


def test_a_closed_connection_fails_pending_requests_and_reconnects_later() -> None:
    lost: list[Any] = []

    async def scenario(server: FakeServer, client: RemotingClient) -> None:
        pending = asyncio.ensure_future(client.invoke(server.address, request(SILENT), 60))
        await server.wait_for(SILENT)
        server.drop_connections()
        with pytest.raises(UnreachableError, match="closed before the answer"):
            await pending
        assert lost == [server.address]
        assert (await client.invoke(server.address, request(ECHO))).code == 0

    run(scenario, on_lost=lost.append)


def test_a_closed_port_is_unreachable() -> None:
    async def scenario(server: FakeServer, client: RemotingClient) -> None:
        address = server.address
        await server.stop()
        with pytest.raises(UnreachableError, match="is a server running there"):
            await client.invoke(address, request(ECHO))
        client.note_brokers([BrokerData(cluster="c", broker_name="broker-x", broker_addrs={0: address})])
        with pytest.raises(UnreachableError, match=r"does broker-x run, .* \(its brokerIP1"):
            await client.invoke(address, request(ECHO))

    run(scenario)


def test_an_invalid_address_is_named() -> None:
    async def scenario(server: FakeServer, client: RemotingClient) -> None:
        with pytest.raises(UnreachableError, match="write host:port"):
            await client.invoke("nonsense", request(ECHO))

    run(scenario)


@pytest.mark.parametrize("host", ["a..b", "a" * 64 + ".example", "a\0b"])
def test_an_impossible_host_name_is_unreachable(host: Any) -> None:
    async def scenario(server: FakeServer, client: RemotingClient) -> None:
        with pytest.raises(UnreachableError, match="no connection to"):
            await client.invoke(f"{host}:1", request(ECHO))

    run(scenario)


def test_oneway_is_flagged_and_unanswered() -> None:
    async def scenario(server: FakeServer, client: RemotingClient) -> None:
        await client.oneway(server.address, request(ECHO, {"n": "1"}))
        command = await server.wait_for(ECHO)
        assert command.flag & FLAG_ONEWAY
        await client.invoke(server.address, request(ECHO))
        assert server.count(ECHO) == 2

    run(scenario)


def test_close_fails_pending_and_later_requests() -> None:
    async def scenario(server: FakeServer, client: RemotingClient) -> None:
        pending = asyncio.ensure_future(client.invoke(server.address, request(SILENT), 60))
        await server.wait_for(SILENT)
        await client.close()
        with pytest.raises(UnreachableError, match="the client was closed"):
            await pending
        with pytest.raises(ClosedError, match="client is stopped"):
            await client.invoke(server.address, request(ECHO))

    run(scenario)


@pytest.mark.parametrize("later", [False, True])
def test_the_servers_requests_are_answered(later: Any) -> None:
    got = []

    def on_request(command: Command, address: str) -> Any:
        got.append((command.code, address))
        reply = Reply(body=b"here")
        if not later:
            return reply

        async def answer() -> Any:
            await asyncio.sleep(0)
            return reply

        return answer()

    async def scenario(server: FakeServer, client: RemotingClient) -> None:
        await client.invoke(server.address, request(ECHO))
        server.push(Command(307, opaque=77))
        answer = await server.wait_for_answers()
        assert (answer.opaque, answer.code, answer.body) == (77, 0, b"here")
        assert got == [(307, server.address)]

    run(scenario, on_request=on_request)


def test_a_failing_handler_answers_code_1_except_to_oneway_requests() -> None:
    def on_request(command: Command, address: str) -> Never:
        raise ValueError("boom")

    async def scenario(server: FakeServer, client: RemotingClient) -> None:
        await client.invoke(server.address, request(ECHO))
        server.push(Command(40, opaque=1, flag=FLAG_ONEWAY))
        server.push(Command(307, opaque=2))
        answer = await server.wait_for_answers()
        assert (answer.opaque, answer.code) == (2, ResponseCode.SYSTEM_ERROR)
        assert "boom" in (answer.remark or "")

    run(scenario, on_request=on_request)


def test_without_a_handler_the_server_gets_code_3() -> None:
    async def scenario(server: FakeServer, client: RemotingClient) -> None:
        await client.invoke(server.address, request(ECHO))
        server.push(Command(307, opaque=2))
        assert (await server.wait_for_answers()).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED

    run(scenario)


def test_garbage_from_the_server_ends_that_connection() -> None:
    async def scenario(server: FakeServer, client: RemotingClient) -> None:
        pending = asyncio.ensure_future(client.invoke(server.address, request(SILENT), 60))
        await server.wait_for(SILENT)
        server.push_bytes(struct.pack(">i", -1) + b"x" * 60)
        with pytest.raises(UnreachableError, match="broke the protocol"):
            await pending

    run(scenario)


def test_go_away_moves_later_requests_to_a_new_connection() -> None:
    async def scenario(server: FakeServer, client: RemotingClient) -> None:
        server.refuse(ECHO, ResponseCode.GO_AWAY)
        assert (await client.invoke(server.address, request(ECHO))).code == ResponseCode.GO_AWAY
        assert not client.is_connected(server.address)
        server.on(ECHO, lambda command: Reply())
        assert (await client.invoke(server.address, request(ECHO))).code == 0

    run(scenario)


def test_a_large_body_passes_both_ways() -> None:
    async def scenario(server: FakeServer, client: RemotingClient) -> None:
        body = bytes(range(256)) * 40_000
        answers = await asyncio.gather(*[client.invoke(server.address, request(ECHO, body=body), 20) for _ in range(3)])
        assert all(answer.body == body for answer in answers)

    run(scenario)
