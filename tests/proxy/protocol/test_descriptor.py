"""The compiled definition belongs to the definition beside it."""

from __future__ import annotations

import importlib.util

import pytest

pytest.importorskip("google.protobuf")

from pymq.proxy.protocol import descriptor, make, messages, names


def test_the_compiled_definition_is_of_this_source() -> None:
    assert make.source_digest() == descriptor.SOURCE_SHA256, "a .proto file has changed: run scripts/proto"


@pytest.mark.skipif(importlib.util.find_spec("grpc_tools") is None, reason="the compiler is in the extra proto")
def test_the_compiler_makes_the_same() -> None:
    assert make.module_text(make.compiled()) == make.TARGET.read_text()


@pytest.mark.parametrize("enum", ["Code", "MessageType", "ClientType", "Permission", "FilterType", "Encoding"])
def test_the_numbers_are_those_of_the_definition(enum: str) -> None:
    values = messages.POOL.FindEnumTypeByName(f"{messages.PACKAGE}.{enum}").values_by_name
    here = {name: number for name, number in vars(getattr(names, enum)).items() if name.isupper()}
    assert here == {name: values[name].number for name in here}
