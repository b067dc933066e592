"""Headers of filter servers: 301 (one reports to its broker) and 302 (a consumer brings what it wants to one)."""

from __future__ import annotations

from pymq.wire.header import Header, Int32, Int64


class RegisterFilterServerHeader(Header, kw_only=True, frozen=True):
    """REGISTER_FILTER_SERVER (301): "host:port" that consumers reach."""

    filter_server_addr: str


class RegisterFilterServerAnswer(Header, kw_only=True, frozen=True):
    """Answer to 301: the broker's name and id."""

    broker_name: str
    broker_id: Int64


class RegisterFilterClassHeader(
    Header,
    kw_only=True,
    frozen=True,
    rename={
        "consumer_group": "consumerGroup",
        "topic": "topic",
        "class_name": "className",
        "class_crc": "classCRC",
    },
):
    """REGISTER_MESSAGE_FILTER_CLASS (302). ``class_crc``: CRC-32 of the body, sign bit cleared; 0 is not checked."""

    consumer_group: str
    topic: str
    class_name: str
    class_crc: Int32 = 0
