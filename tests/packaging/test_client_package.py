"""pymq-client: few modules, one dependency, and with pymq-toolkit every file once."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

from pymq.testing.standalone import StandaloneProcess

ROOT = Path(__file__).parents[2]
MODULES_MAX = 230
LOADED_MAX = 190  # by a program that sends and consumes
DEPENDENCIES = {"msgspec"}
# Imported at their first use; the extras bring them, or what they are for needs none of the client's promises.
OPTIONAL = {
    *("numpy", "lark", "pluggy", "lz4", "zstandard", "fastavro", "google", "opentelemetry", "yaml"),
    *("cryptography", "uvloop"),
}
PROGRAM = """
import asyncio, sys
from pymq.client import Message, Producer, PullConsumer
from pymq.client.sync import Producer as Blocking

async def main(namesrv):
    async with Producer("p", namesrv=namesrv) as producer, PullConsumer("c", namesrv=namesrv) as pull:
        sent = await producer.send(Message("T", b"hello"))
        return (await pull.pull(sent.queue, sent.queue_offset)).messages()[0].body

print(asyncio.run(main(sys.argv[1])).decode(), len([name for name in sys.modules if name.startswith("pymq")]))
"""


@pytest.fixture(scope="module")
def closure() -> ModuleType:
    spec = importlib.util.spec_from_file_location("closure", ROOT / "client" / "closure.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_client_stays_small_and_needs_one_package(closure: ModuleType) -> None:
    found = closure.client_modules(closure.modules(ROOT))
    assert 100 < len(found) <= MODULES_MAX
    others = {name for names in found.values() for name in names} - sys.stdlib_module_names
    assert others <= DEPENDENCIES | OPTIONAL
    rooms = {name.split(".")[1] for name in found if "." in name}
    assert not rooms & {"broker", "store", "namesrv", "proxy", "console", "cli", "spark", "operations"}


def test_the_closure_follows_each_form_of_an_import(closure: ModuleType, tmp_path: Path) -> None:
    files = {
        "__init__": "",
        "client/__init__": "def late():\n    from pymq import a\n",
        "client/one": "from ..b import c\nif TYPE_CHECKING:\n    import pymq.never\n",
        "a": "import lz4.frame\n",
        "b/__init__": "from . import d\n",
        "b/c": "",
        "b/d": "import os.path\n",
        "never": "",
        "unused": "",
    }
    for name, text in files.items():
        path = tmp_path / "pymq" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    found = closure.client_modules(closure.modules(tmp_path))
    assert set(found) == {"pymq", "pymq.client", "pymq.client.one", "pymq.a", "pymq.b", "pymq.b.c", "pymq.b.d"}
    assert found["pymq.a"] == {"lz4"} and found["pymq.b.d"] == {"os"}


def test_both_packages_have_one_version() -> None:
    lines = [
        (ROOT / name / "pyproject.toml").read_text("utf-8").split('version = "')[1].split('"')[0]
        for name in (".", "client")
    ]
    assert lines[0] == lines[1]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_its_wheel_sends_and_consumes_beside_nothing_else(
    machine_environment: dict[str, str], closure: ModuleType, tmp_path: Path
) -> None:
    def run(*command: str) -> str:
        done = subprocess.run(
            command, env=machine_environment, capture_output=True, text=True, cwd=tmp_path, check=False
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", "wheels", str(ROOT / "client"))
    (wheel,) = (tmp_path / "wheels").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert names == set(closure.client_files(ROOT))
    run(sys.executable, "-m", "venv", "--without-pip", "venv")
    python = str(tmp_path / "venv" / "bin" / "python")
    run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", str(wheel))
    listed = run(sys.executable, "-m", "pip", "--python", python, "list", "--format", "freeze").split()
    assert {line.partition("==")[0] for line in listed} == {"pymq-client", "msgspec"}
    with StandaloneProcess() as server:
        body, count = run(python, "-I", "-c", PROGRAM, server.namesrv).split()
    assert body == "hello" and int(count) <= LOADED_MAX
