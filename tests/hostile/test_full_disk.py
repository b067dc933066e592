"""A broker that is killed on a full disk and started there again: it serves, and takes sends when there is room."""

from __future__ import annotations

import asyncio
import os
import resource
from pathlib import Path

import pytest

from pymq.client import Admin, Producer
from pymq.errors import RefusedError
from pymq.model.tables import TopicConfig
from pymq.testing.standalone import StandaloneProcess
from pymq.wire.codes import ResponseCode
from tests.crash.test_full_disk import SETTINGS, Sender, limit_files, stored

LIMIT_BYTES = 80_500
# No file of the process may grow, or be written, beyond this size from its first moment on.
_SITE = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, resource.RLIM_INFINITY))\n"


async def scenario(directory: Path, site: Path, start_limit_bytes: int, patch: pytest.MonkeyPatch) -> None:
    servers = StandaloneProcess(directory, settings=SETTINGS)
    await asyncio.to_thread(servers.start)
    try:
        async with Admin(servers.namesrv) as admin:
            await admin.topics.put(servers.broker, TopicConfig(topic_name="T"))
        async with Producer("P", namesrv=servers.namesrv, retry_count=0) as producer:
            sender = Sender(producer)
            await sender.send()
            await stored(servers.namesrv)  # this creates the group
            limit_files(servers.pid, LIMIT_BYTES)
            while True:
                try:
                    await sender.send()
                except RefusedError:
                    break
        await asyncio.to_thread(servers.kill)
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH", "")])))
        servers = StandaloneProcess(directory, settings=SETTINGS)
        await asyncio.to_thread(servers.start)
        assert await stored(servers.namesrv) == sender.acknowledged
        async with Producer("P", namesrv=servers.namesrv, retry_count=0) as producer:
            again = Sender(producer)
            assert (await again.refused()).code == ResponseCode.SERVICE_NOT_AVAILABLE
            limit_files(servers.pid, resource.RLIM_INFINITY)
            while not again.acknowledged:
                try:
                    await again.send()
                except RefusedError:
                    await asyncio.sleep(0.05)  # it looks once a second
            for _ in range(19):
                await again.send()
        assert sorted([*sender.acknowledged, *again.acknowledged]) == list(range(len(sender.acknowledged) + 20))
        assert await stored(servers.namesrv) == sender.acknowledged | again.acknowledged
    finally:
        await asyncio.to_thread(servers.stop)


@pytest.mark.slow
@pytest.mark.parametrize("start_limit_bytes", [LIMIT_BYTES, 4096, 0])
def test_a_start_on_a_full_disk_serves(tmp_path: Path, start_limit_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(_SITE.format(limit=start_limit_bytes))
    asyncio.run(scenario(tmp_path / "data", tmp_path / "site", start_limit_bytes, monkeypatch))
