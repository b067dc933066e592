"""``pymq standalone --workers``: a name server and several brokers, with users, metrics and one port for gRPC."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import grpc
import pytest

from pymq.cli import main as cli
from pymq.client import Admin
from pymq.errors import EXIT_OK, EXIT_USAGE
from pymq.proxy.protocol import messages as m
from pymq.proxy.protocol.messages import SERVICE
from pymq.security.credentials import Credentials
from tests.cli.broker.machines import is_alive, running

FREE = ["standalone", "--workers", "2", "--namesrv-port", "0", "--port", "0"]


@pytest.mark.slow
def test_users_are_those_of_every_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRST_ACCESS_KEY", "root")
    monkeypatch.setenv("FIRST_SECRET_KEY", "of the first user")
    checked = ["--set", "authenticationEnabled=true", "--set", "authorizationEnabled=true"]
    arguments = [*FREE, "--dir", str(tmp_path), *checked, "--set", "initAuthenticationUser=env:FIRST"]
    for _ in range(2):  # the second start finds the users that the first one made

        async def registered(namesrv: str) -> list[str]:
            async with Admin(namesrv, credentials=Credentials("root", "of the first user")) as admin:
                return sorted((await admin.cluster.info()).broker_addr_table)

        with running(*arguments) as machine:
            assert asyncio.run(registered(machine.ready["namesrv"])) == ["broker-a-0", "broker-a-1"]
            assert machine.ready["broker"] == machine.ready["workers"][0]["broker"]
            assert machine.stop() == EXIT_OK


@pytest.mark.slow
def test_all_workers_serve_one_grpc_port_and_one_goes_on_when_another_dies() -> None:
    async def ask(address: str) -> list[str]:
        names = []
        for _ in range(20):  # connections, each of which one of the workers takes
            async with grpc.aio.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)]) as channel:
                call = channel.unary_unary(
                    f"/{SERVICE}/QueryRoute",
                    request_serializer=m.QueryRouteRequest.SerializeToString,
                    response_deserializer=m.QueryRouteResponse.FromString,
                )
                request = m.QueryRouteRequest(topic=m.Resource(name="TBW102"), endpoints=m.Endpoints())
                metadata = (("x-mq-client-id", "c"), ("x-mq-language", "JAVA"), ("x-mq-client-version", "5.2.0"))
                answer = await call(request, timeout=60, metadata=metadata, wait_for_ready=True)
                names.append(str(answer.status.code))
        return names

    with running(*FREE, "--ephemeral", "--grpc-port", "0", "--log-level", "error") as machine:
        before = asyncio.run(ask(machine.ready["grpc"]))
        assert len(before) == 20
        pid = machine.ready["workers"][0]["pid"]

        os.kill(pid, signal.SIGKILL)
        assert asyncio.run(ask(machine.ready["grpc"])) == before
        assert machine.stop() == EXIT_OK
        assert not any(is_alive(row["pid"]) for row in machine.ready["workers"][1:])


def test_shards_and_workers_exclude_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["standalone", "--shards", "1", "--workers", "2"]) == EXIT_USAGE
    assert "--workers is for a single broker" in capsys.readouterr().err
