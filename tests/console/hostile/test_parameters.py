"""Every parameter and every part of an address of every page, with what no page asks for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from pymq.client import Message, Producer
from pymq.console.web.parameters import TEXT_LENGTH_MAX, Parameters
from pymq.console.web.serving import HEAD_BYTES_MAX
from pymq.testing.broker import TestBroker
from tests.console.asgi import Answer
from tests.console.hostile.site import NAMES, ROUTES, Site, address_of, addresses, site

MEGABYTES_10 = "x" * (10 * 1024 * 1024)
# No parameter of any page takes these; the console's server passes on no more than a head.
NEVER = {"twice": "{0}=1&{0}=1", "10 heads": "{0}=" + "x" * (10 * HEAD_BYTES_MAX), "NUL": "{0}=a%00b"}
NEVER |= {"bad UTF-8": "{0}=%ff"}
NUMBERS = {
    "empty": "",
    "text": "x",
    "negative": "-1",
    "2^63": str(2**63),
    "2^64": str(2**64),
    "dots": "..",
    "half": "1.5",
}
NUMBERS |= {"digits": "9" * TEXT_LENGTH_MAX, "other digits": "%D9%A1", "plus": "%2B1", "space": "+1"}
TEXTS = {
    "empty": "",
    "negative": "-1",
    "2^63": str(2**63),
    "dots": "../..",
    "path": "%2Fetc%2Fpasswd",
    "quotes": "'\"%3C",
}
TEXTS |= {"lines": "a%0D%0Ab", "longest": "x" * TEXT_LENGTH_MAX, "braces": "%7B%7B7*7%7D%7D", "end": "%F4%8F%BF%BF"}
PARTS = {"dots": "..", "encoded dots": "%2e%2e", "slash": "a%2Fb", "long": "x" * 10_000, "negative": "-1"}
PARTS |= {"2^63": str(2**63), "digits": "9" * 5000, "markup": "%3Cscript%3E", "lines": "a%0d%0ab", "marks": "%E2%80%AE"}
EXPECTED = {200, 400, 404}


@pytest.fixture(scope="module")
def broker() -> Iterator[TestBroker]:
    with TestBroker() as found:
        found.create_topic("orders")

        async def send() -> None:
            async with Producer("test", namesrv=found.namesrv) as producer:
                for number in range(8):
                    await producer.send(Message("orders", b"hello", keys=[f"k{number}"]))

        asyncio.run(send())
        yield found


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The parameters that pages have read, each with how it is read."""
    found: dict[str, str] = {}

    def note(kind: str) -> None:
        original: Any = getattr(Parameters, kind)

        def noted(self: Parameters, name: str, *arguments: Any, **more: Any) -> Any:
            found.setdefault(name, kind)
            return original(self, name, *arguments, **more)

        monkeypatch.setattr(Parameters, kind, noted)

    for kind in ("number", "choice", "flag", "text", "all"):
        note(kind)
    return found


def check(answer: Answer, what: str) -> None:
    assert answer.status in EXPECTED, f"{what}: {answer.status}"
    assert "\u202e" not in answer.text and "<script>" not in answer.text, what


@pytest.mark.slow
def test_no_page_takes_a_wrong_parameter(
    broker: TestBroker, read: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    async def fuzz(found: Site, path: str) -> None:
        begins = (
            ["", "topic=orders", "topic=orders&q=k1", "user=a&resource=Topic:a"]
            if path in ("messages", "messages/events", "messages/export", "auth")
            else [""]
        )
        for begin in begins:
            read.clear()
            assert (await found.get(path, begin)).status in EXPECTED
            names = {name: kind for name, kind in read.items() if name not in begin}
            for name in list(names)[:1]:
                answer = await found.get(path, f"{begin}&{name}={MEGABYTES_10}")
                assert answer.status == 400 and f"{name}: " in answer.text, f"{path}?{begin}: {name} 10 MB"
            for name, kind in names.items():
                for what, query in NEVER.items():
                    answer = await found.get(path, begin + "&" + query.format(name))
                    if kind == "all" and what == "twice":
                        continue
                    assert answer.status == 400 and f"{name}: " in answer.text, f"{path}?{begin}: {name} {what}"
                for what, value in (NUMBERS if kind == "number" else TEXTS).items():
                    answer = await found.get(path, f"{begin}&{name}={value}")
                    check(answer, f"{path}?{begin}: {name} {what}")
                    is_wrong = kind == "number" or (kind in ("choice", "flag") and what != "empty")
                    if is_wrong:
                        assert answer.status == 400 and f"{name}: " in answer.text, f"{path}?{begin}: {name} {what}"

    async def work() -> None:
        async with site(broker.namesrv) as found:
            for _, path in addresses():
                await fuzz(found, path)

    with caplog.at_level(logging.INFO, "pymq.console"):
        asyncio.run(work())
    assert not [each for each in caplog.records if each.name.startswith("pymq.console")]


def test_what_no_page_knows_is_ignored(broker: TestBroker) -> None:
    async def work() -> None:
        async with site(broker.namesrv) as found:
            for _, path in addresses():
                assert (await found.get(path, "nonsense=1&nonsense=-1&__proto__=x")).status in EXPECTED, path

    asyncio.run(work())


@pytest.mark.parametrize("part", [*NAMES, "{id}"])
def test_no_part_of_an_address_makes_a_fault(broker: TestBroker, part: str, caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        async with site(broker.namesrv) as found:
            for route in ROUTES:
                if part not in route:
                    continue
                for what, value in PARTS.items():
                    answer = await found.get(address_of(route, **{part.strip("{}"): value}))
                    check(answer, f"{route}: {part} {what}")
                for value in ("%00", "%ff", "a%00b", "%ed%a0%80"):
                    answer = await found.get(address_of(route, **{part.strip("{}"): value}))
                    assert answer.status == 400, f"{route}: {value}"

    with caplog.at_level(logging.INFO, "pymq.console"):
        asyncio.run(work())
    assert not [each for each in caplog.records if each.name.startswith("pymq.console")]
