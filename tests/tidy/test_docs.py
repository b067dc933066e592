"""Conf files and the table of request codes list what there is."""

import re

import pytest

from pymq.config import BrokerConfig, Config, NamesrvConfig
from pymq.config.base import format_value
from pymq.wire.codes import RequestCode
from tests.tidy.sources import ROOT


def document(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def test_every_request_code_is_documented() -> None:
    text = document("compatibility.md")
    codes = {name: value for name, value in vars(RequestCode).items() if isinstance(value, int)}
    assert codes
    assert not [f"{name} {value}" for name, value in codes.items() if not re.search(rf"(?<!\d){value}(?!\d)", text)]


@pytest.mark.parametrize(("file", "config"), [("broker.conf", BrokerConfig), ("namesrv.conf", NamesrvConfig)])
def test_conf_files_hold_every_key_with_its_default(file: str, config: type[Config]) -> None:
    lines = (ROOT / "conf" / file).read_text(encoding="utf-8").splitlines()
    written = dict(line[1:].split("=", 1) for line in lines if re.match(r"#\w+=", line))
    assert written == {name: format_value(row.default) for name, row in config.settings().items()}


@pytest.mark.parametrize("file", ["broker.conf", "namesrv.conf"])
def test_conf_files_set_nothing_themselves(file: str) -> None:
    lines = (ROOT / "conf" / file).read_text(encoding="utf-8").splitlines()
    assert not [line for line in lines if line and not line.startswith("#")]
