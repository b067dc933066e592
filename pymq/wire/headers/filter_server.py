"""Headers of filter servers: 301 (one reports to its broker) and 302 (a consumer uploads its filter class)."""

from __future__ import annotations

from pymq.wire.header import Header, Int32, Int64


class RegisterFilterServerHeader(Header, kw_only=True, frozen=True):
    """REGISTER_FILTER_SERVER (301): the "host:port" that consumers connect to."""

    filter_server_addr: str


class RegisterFilterServerAnswer(Header, kw_only=True, frozen=True):
    """The answer to 301: the broker's name and id."""

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
    """REGISTER_MESSAGE_FILTER_CLASS (302).

    ``class_crc`` is the body's CRC-32 without sign bit; 0 turns the check off.
    """

    consumer_group: str
    topic: str
    class_name: str
    class_crc: Int32 = 0
