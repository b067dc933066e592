"""Ranges of source addresses, compared with the standard library's where it has them."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pymq.errors import UsageError
from pymq.security.addresses import ALTERNATIVES_MAX, parse_address, parse_block, parse_pattern

IPV4 = st.integers(0, 2**32 - 1).map(ipaddress.IPv4Address)
IPV6 = st.integers(0, 2**128 - 1).map(ipaddress.IPv6Address)


def matches(pattern: str, address: str) -> bool:
    return any(block.contains(parse_address(address)) for block in parse_pattern(pattern))


@settings(max_examples=60)
@given(st.one_of(st.tuples(IPV4, IPV4, st.integers(0, 32)), st.tuples(IPV6, IPV6, st.integers(0, 128))))
def test_a_block_contains_what_the_standard_library_says(case: tuple[object, object, int]) -> None:
    base, address, bits = case
    network = ipaddress.ip_network(f"{base}/{bits}", strict=False)
    near = network[-1]
    block = parse_block(f"{base}/{bits}")
    for candidate in (address, base, near):
        found = parse_address(str(candidate))
        assert block.contains(found) == (found in network)


@pytest.mark.parametrize(
    ("pattern", "inside", "outside"),
    [
        ("*", ["1.2.3.4", "fe80::1"], []),
        ("*.*.*.*", ["1.2.3.4", "fe80::1"], []),
        ("10.10.103.*", ["10.10.103.0", "10.10.103.255"], ["10.10.104.1", "::a0a:6701"]),
        ("192.168.*.*", ["192.168.0.1"], ["192.169.0.1"]),
        ("192.168.0.1-20", ["192.168.0.1", "192.168.0.20"], ["192.168.0.21", "192.168.0.0"]),
        ("192.168.1-2.*", ["192.168.1.9", "192.168.2.0"], ["192.168.3.0"]),
        ("10.1.1.{1,2}", ["10.1.1.1", "10.1.1.2"], ["10.1.1.3"]),
        ("10.1.1.1,10.1.1.9", ["10.1.1.1", "10.1.1.9"], ["10.1.1.2"]),
        ("fe80:0:0:0:0:0:0:*", ["fe80::1", "fe80::ffff"], ["fe80::1:0", "10.0.0.1"]),
        ("fe80::1-f", ["fe80::a"], ["fe80::10"]),
        ("", [], ["127.0.0.1"]),
    ],
)
def test_patterns_of_acl_files(pattern: str, inside: list[str], outside: list[str]) -> None:
    assert [address for address in inside if not matches(pattern, address)] == []
    assert [address for address in outside if matches(pattern, address)] == []


def test_an_ipv4_address_written_as_ipv6_is_that_ipv4_address() -> None:
    assert matches("10.0.0.*", "::ffff:10.0.0.7")
    assert parse_block("10.0.0.0/8").contains(parse_address("::ffff:10.0.0.7"))


@pytest.mark.parametrize(
    "text",
    ["10.1.1", "10.1.1.1.1", "10.1.*.1", "10.1.1.300", "10.1.1.20-1", "10.1.1.x", "a::b::*", "10.1.1.1-", "1.2.3.{4"],
)
def test_what_is_no_pattern_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is no address pattern"):
        parse_pattern(text)


def test_a_list_of_endings_has_a_limit() -> None:
    endings = ",".join(map(str, range(ALTERNATIVES_MAX)))
    assert len(parse_pattern(f"10.0.0.{{{endings}}}")) == ALTERNATIVES_MAX
    with pytest.raises(UsageError, match=str(ALTERNATIVES_MAX)):
        parse_pattern(f"10.0.0.{{{endings},77}}")


@pytest.mark.parametrize("text", ["", "x", "10.0.0.0/33", "10.0.0.*", "fe80::/129"])
def test_what_is_no_block_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="CIDR"):
        parse_block(text)


@settings(max_examples=60)
@given(st.text("0123456789abc.:*-{},/ ", max_size=24))
def test_no_text_breaks_the_parsers(text: str) -> None:
    for parse in (parse_pattern, parse_block, parse_address):
        try:
            parse(text)
        except UsageError:
            pass
