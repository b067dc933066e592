"""The table of requests: complete, named, and equal to the documentation."""

from __future__ import annotations

import re
from pathlib import Path

from pymq.broker.assembly.wiring import routes_in_role
from pymq.broker.handlers.refused import REFUSED_CODES
from pymq.wire.codes import ResponseCode
from tests.broker.world import Caller, World

DOCS = Path(__file__).parent.parent.parent / "docs" / "compatibility.md"


def documented(kind: str) -> dict[int, str]:
    """Return code -> name of the documented rows of that kind."""
    text = DOCS.read_text(encoding="utf-8").partition("## Request codes of the name server")[0]
    rows = re.findall(rf"^\| (\d+) \| (\S+).*? \| {kind} \|", text, re.MULTILINE)
    return {int(code): name for code, name in rows}


def test_every_served_code_is_documented_and_no_other() -> None:
    assert documented("served") == {route.code: route.name for route in routes_in_role(World().parts)}


def test_every_refused_code_is_documented_with_its_reason() -> None:
    assert sorted(documented("refused")) == sorted(REFUSED_CODES)
    text = DOCS.read_text(encoding="utf-8")
    assert not [why for why in REFUSED_CODES.values() if why not in text]


def test_no_code_is_both_served_and_refused() -> None:
    served = {route.code for route in routes_in_role(World().parts)}
    assert not served & REFUSED_CODES.keys()


def test_a_refused_code_says_why_and_an_unknown_one_is_named() -> None:
    caller = Caller(World())
    for code, why in REFUSED_CODES.items():
        found, remark = caller.refused(code)
        assert found == ResponseCode.REQUEST_CODE_NOT_SUPPORTED and why in remark and str(code) in remark
    found, remark = caller.refused(7777)
    assert found == ResponseCode.REQUEST_CODE_NOT_SUPPORTED and "7777" in remark
