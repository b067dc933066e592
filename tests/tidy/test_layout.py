"""The byte layout of records, queue units and index files stands in one module."""

from __future__ import annotations

import ast
import re

import pytest

from tests.tidy.sources import Module, dotted, modules

LAYOUT = ("pymq/model/layout.py", "pymq/model/layout_dtypes.py")
# Module -> the layouts it packs or unpacks: none of a stored record, a batch entry, a queue unit or an index file.
OTHERS = {
    "pymq/broker/fast/header.py": "wire frames",
    "pymq/broker/fast/pull_header.py": "wire frames",
    "pymq/broker/fast/signed_header.py": "wire frames",
    "pymq/broker/raft/peers.py": "length of an envelope before log bytes",
    "pymq/filter/java_numbers.py": "bits of a double",
    "pymq/filterserver/work.py": "frames between a filter server and its workers",
    "pymq/model/hosts.py": "a host's port",
    "pymq/model/ids.py": "message ids",
    "pymq/proxy/http2/frames.py": "frames of HTTP/2",
    "pymq/proxy/rpc/wire.py": "prefix of gRPC messages",
    "pymq/spark/session/gateway.py": "answer of the gateway process",
    "pymq/store/disk/checkpoint.py": "checkpoint file",
    "pymq/store/disk/timer_checkpoint.py": "timer checkpoint file",
    "pymq/store/timer/timer_log.py": "units of the timer log",
    "pymq/store/timer/timer_wheel.py": "slots of the timer wheel",
    "pymq/store/integrity/digest_file.py": "digest file",
    "pymq/store/queue/sums_file.py": "checksums of queue units",
    "pymq/store/light/entry_files.py": "entries of light queues",
    "pymq/store/light/table_file.py": "table of light queues",
    "pymq/store/log/cold_file.py": "seek table of a compressed segment",
    "pymq/wire/bodies_registration.py": "wire bodies",
    "pymq/wire/command.py": "wire frames",
    "pymq/wire/frame_templates.py": "wire frames",
    "pymq/wire/ha.py": "HA protocol",
}
STRUCT_CALLS = {"struct.Struct", "struct.pack", "struct.unpack", "struct.unpack_from", "struct.pack_into", "Struct"}
# A number of a given byte order, as numpy spells it.
BYTE_ORDER = re.compile(r"[>=<][iu][248]\Z")


def struct_calls(module: Module) -> list[int]:
    return [n.lineno for n in ast.walk(module.tree) if isinstance(n, ast.Call) and dotted(n.func) in STRUCT_CALLS]


def typed_numbers(module: Module) -> list[int]:
    return [
        node.lineno
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and BYTE_ORDER.match(node.value)
    ]


@pytest.mark.slow
def test_structs_and_numpy_types_of_stored_bytes_stand_in_the_layout_modules() -> None:
    found = {module.name: struct_calls(module) + typed_numbers(module) for module in modules()}
    strange = {name: lines for name, lines in found.items() if lines and name not in LAYOUT and name not in OTHERS}
    assert not strange, "take them from pymq.model.layout, or list the module here if it packs something else"


@pytest.mark.slow
def test_the_list_of_other_layouts_is_true() -> None:
    assert set(OTHERS) == {module.name for module in modules() if struct_calls(module)} - set(LAYOUT)


def test_the_check_finds_what_it_looks_for() -> None:
    text = 'import struct\nA = struct.Struct(">qiq")\nB = np.dtype([("offset", ">i8")])\n'
    module = Module("pymq/store/x.py", text, ast.parse(text))
    assert (struct_calls(module), typed_numbers(module)) == ([2], [3])
