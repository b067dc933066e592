"""Codes 301 and 302 at a broker."""

from __future__ import annotations

import pytest

from pymq.wire.codes import RequestCode as Code
from pymq.wire.codes import ResponseCode
from tests.broker.world import Caller, World


@pytest.mark.parametrize("broker_id", [0, 1])
def test_a_filter_server_learns_the_broker_of_its_registration(broker_id: int) -> None:
    world = World(brokerName="b", brokerId=broker_id)
    answer = Caller(world).header(Code.REGISTER_FILTER_SERVER, filterServerAddr="127.0.0.1:7")
    assert answer == {"brokerName": "b", "brokerId": str(broker_id)}
    assert world.parts.metadata.filter_servers.addresses() == ["127.0.0.1:7"]


def test_a_report_without_an_address_is_refused() -> None:
    code, remark = Caller(World()).refused(Code.REGISTER_FILTER_SERVER)
    assert code == ResponseCode.SYSTEM_ERROR and "filterServerAddr" in remark


def test_a_broker_takes_no_filter_classes() -> None:
    code, remark = Caller(World()).refused(Code.REGISTER_MESSAGE_FILTER_CLASS, b"x", consumerGroup="g", topic="T")
    assert code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED and "pymq filter-server" in remark
