"""Ranges of source addresses: RocketMQ 5.x's addresses and CIDR blocks, and the patterns of 4.x ACL files."""

from __future__ import annotations

import ipaddress
import itertools
import re
from dataclasses import dataclass
from typing import Final

from pymq.errors import UsageError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

ALTERNATIVES_MAX: Final = 64  # in one list {a,b} of a pattern
_IPV4_BITS, _IPV4_PARTS, _IPV6_PARTS = 8, 4, 8
_PART_MAX = {4: 255, 6: 0xFFFF}
_BRACES = re.compile(r"(.*)\{([^{}]*)\}\Z")


@dataclass(frozen=True)
class AddressRange:
    """Addresses of one version whose parts each lie within a first and a last number."""

    text: str  # as it was written
    version: int
    parts: tuple[tuple[int, int], ...]  # 4 parts of an IPv4 address or 8 of an IPv6 one; empty: every address

    def contains(self, address: Address) -> bool:
        """True when the range contains ``address``, which :func:`parse_address` gave."""
        if not self.parts:
            return True
        if address.version != self.version:
            return False
        return all(first <= part <= last for part, (first, last) in zip(_parts(address), self.parts, strict=True))


def parse_address(text: str) -> Address:
    """Return the address in ``text``; an IPv4 address that is written as IPv6 becomes IPv4. Raises UsageError."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError as error:
        raise UsageError(f"{text[:60]!r} is no IP address: write one such as 192.168.0.1 or fe80::1") from error
    return address.ipv4_mapped or address if isinstance(address, ipaddress.IPv6Address) else address


def parse_block(text: str) -> AddressRange:
    """Return the range of an address or a CIDR block, as in 5.x policies. Raises UsageError."""
    try:
        network = ipaddress.ip_network(text.strip(), strict=False)
    except ValueError as error:
        raise UsageError(
            f"{text[:60]!r} is no address and no CIDR block: write one such as 192.168.0.1 or 10.0.0.0/8"
        ) from error
    first, last = _parts(network.network_address), _parts(network.broadcast_address)
    return AddressRange(text.strip(), network.version, tuple(zip(first, last, strict=True)))


def parse_pattern(text: str) -> list[AddressRange]:
    """Return the ranges of a pattern of a 4.x ACL file; none for a blank text. Raises UsageError.

    A pattern is ``*``, or an address whose last parts may be ``*`` or ``a-b`` and whose end may be ``{x,y}``, or a list
    of addresses separated by commas.
    """
    text = text.strip()
    if not text:
        return []
    if text.replace("*", "").strip(".:") == "" and "*" in text:
        return [AddressRange(text, 4, ())]
    braces = _BRACES.match(text)
    if braces:
        endings = [ending.strip() for ending in braces[2].split(",")]
        if len(endings) > ALTERNATIVES_MAX:
            raise UsageError(f"{text[:60]!r} lists {len(endings)} endings, the limit is {ALTERNATIVES_MAX}: split it")
        return [_parse_one(f"{braces[1]}{ending}") for ending in endings]
    return [_parse_one(part.strip()) for part in text.split(",")]


def _parse_one(text: str) -> AddressRange:
    version, parts = (6, _ipv6_texts(text)) if ":" in text else (4, text.split("."))
    wanted = _IPV6_PARTS if version == 6 else _IPV4_PARTS
    ranges = [_parse_part(part, version, text) for part in parts]
    if len(ranges) != wanted:
        raise _bad(text, f"it has {len(ranges)} parts instead of {wanted}")
    wide = itertools.dropwhile(lambda part: part[0] == part[1], ranges)
    if any(first == last for first, last in wide):
        raise _bad(text, "a single number follows a * or a range")
    return AddressRange(text, version, tuple(ranges))


def _ipv6_texts(text: str) -> list[str]:
    """Return the eight parts of a pattern of IPv6, with the zeros that ``::`` stands for."""
    head, double, tail = text.partition("::")
    if not double:
        return text.split(":")
    first, last = [part.split(":") if part else [] for part in (head, tail)]
    return [*first, *["0"] * (_IPV6_PARTS - len(first) - len(last)), *last]


def _parse_part(part: str, version: int, text: str) -> tuple[int, int]:
    if part == "*":
        return 0, _PART_MAX[version]
    base = 16 if version == 6 else 10
    first, dash, last = part.partition("-")
    digits = "0123456789abcdefABCDEF" if version == 6 else "0123456789"
    numbers = [first, last] if dash else [first]
    if not all(number and len(number) <= 4 and set(number) <= set(digits) for number in numbers):
        raise _bad(text, f"the part {part[:20]!r} is no number, no range and no *")
    low, high = int(first, base), int(last if dash else first, base)
    if not low <= high <= _PART_MAX[version]:
        raise _bad(text, f"the part {part!r} is outside of 0 to {_PART_MAX[version]}, or begins after its end")
    return low, high


def _parts(address: Address) -> list[int]:
    packed = address.packed
    if address.version == 4:
        return list(packed)
    return [packed[at] << _IPV4_BITS | packed[at + 1] for at in range(0, len(packed), 2)]


def _bad(text: str, why: str) -> UsageError:
    return UsageError(f"{text[:60]!r} is no address pattern: {why}; write one such as 192.168.1.* or 192.168.0.1-20")
