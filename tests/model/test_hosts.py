"""Addresses as text and as bytes."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pymq.model.hosts import (
    format_address,
    host_in_header,
    host_of,
    is_same_host,
    pack_host,
    parse_address,
    unpack_host,
)
from pymq.model.layout import HOST_V4_SIZE_BYTES, HOST_V6_SIZE_BYTES

ports = st.integers(0, 65535)


@given(st.ip_addresses(v=4) | st.ip_addresses(v=6), ports)
def test_packed_and_unpacked(host: IPv4Address | IPv6Address, port: int) -> None:
    raw = pack_host(str(host), port)
    assert len(raw) == (HOST_V4_SIZE_BYTES if host.version == 4 else HOST_V6_SIZE_BYTES)
    assert unpack_host(raw) == unpack_host(memoryview(raw)) == (str(host), port)


@given(st.ip_addresses(v=4) | st.ip_addresses(v=6), ports)
def test_formatted_and_parsed(host: IPv4Address | IPv6Address, port: int) -> None:
    text = format_address(str(host), port)
    assert parse_address(text) == (str(host), port)
    assert text.startswith("[") == (host.version == 6)


def test_the_bytes_are_the_address_and_a_32_bit_port() -> None:
    assert pack_host("10.1.2.3", 10911) == bytes([10, 1, 2, 3, 0, 0, 0x2A, 0x9F])
    assert pack_host("::1", 65535) == bytes(15) + b"\1" + b"\0\0\xff\xff"


def test_a_scope_is_left_out() -> None:
    assert pack_host("fe80::1%eth0", 1) == pack_host("fe80::1", 1)


@pytest.mark.parametrize("text", ["localhost", "", "1.2.3", "1.2.3.4.5", "256.0.0.1", "::g"])
def test_only_addresses_are_packed(text: str) -> None:
    with pytest.raises(ValueError):
        pack_host(text, 1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1:0", ("127.0.0.1", 0)),
        (" localhost:65535\n", ("localhost", 65535)),
        ("[::]:9876", ("::", 9876)),
        ("[fe80::1%eth0]:9876", ("fe80::1%eth0", 9876)),
        ("fe80::1:9876", ("fe80::1", 9876)),
        ("a-b.example:00080", ("a-b.example", 80)),
    ],
)
def test_addresses(text: str, expected: tuple[str, int]) -> None:
    assert parse_address(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "host",
        "host:",
        ":9876",
        "::1",
        "[]:1",
        "[::1]",
        "[::1:1",
        "::1]:1",
        "host:65536",
        "host:-1",
        "host:x",
        "host:1 2",
        "host:²",
        "host:٣",
        "host:000080",
        "host:" + "9" * 5000,
    ],
)
def test_an_invalid_address_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not an address: write host:port, for example 127\.0\.0\.1:9876"):
        parse_address(text)


@pytest.mark.parametrize(("address", "host"), [("10.0.0.1:80", "10.0.0.1"), ("[::1]:80", "[::1]"), ("x", ""), ("", "")])
def test_the_host_of_an_address(address: str, host: str) -> None:
    assert host_of(address) == host


@pytest.mark.parametrize(
    ("header", "host"),
    [
        ("localhost", "localhost"),
        ("Broker-1.Example.:5557", "broker-1.example"),
        ("192.0.2.1:80", "192.0.2.1"),
        ("[2001:DB8::1]:5557", "2001:db8::1"),
        ("[::1]", "::1"),
        ("", ""),
        (":80", ""),
        ("[", ""),
        ("[::1", "::1"),
    ],
)
def test_the_host_in_a_header_of_http(header: str, host: str) -> None:
    assert host_in_header(header) == host


@given(st.text(max_size=20))
def test_any_header_names_some_host(text: str) -> None:
    assert host_in_header(text) == host_in_header(text).lower()


@pytest.mark.parametrize(
    ("host", "address", "is_same"),
    [
        ("192.0.2.1", "192.0.2.1", True),
        ("2001:db8:0::1", "2001:db8::1", True),
        ("192.0.2.1", "::ffff:192.0.2.1", True),
        ("192.0.2.2", "::ffff:192.0.2.1", False),
        ("192.0.2.1.example", "192.0.2.1", False),
        ("", "192.0.2.1", False),
    ],
)
def test_an_address_is_the_same_whatever_way_it_is_written(host: str, address: str, is_same: bool) -> None:
    assert is_same_host(host, address) == is_same
