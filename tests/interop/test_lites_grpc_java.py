"""Lite topics with RocketMQ's Java client for gRPC (5.2.0): its LitePushConsumer against PyMQ's proxy."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest

from tests.interop.support import probe
from tests.interop.support.grpc_driver import Driver, DriverError, body
from tests.interop.support.grpc_servers import PymqProxy
from tests.interop.support.tools import unavailable

WAIT_S = 60
PARENT = "JavaLiteParent"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PymqProxy]:
    if importlib.util.find_spec("grpc") is None:
        unavailable("the extra `grpc` is not installed")
    started = PymqProxy(tmp_path_factory.mktemp("grpc-lites"), {})
    probe.create_topic(started.namesrv, started.broker, PARENT, 4, attributes="+message.type=LITE")
    yield started
    started.stop()


@pytest.fixture(scope="module")
def driver(server: PymqProxy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    started = Driver("java", tmp_path_factory.mktemp("driver"))
    using = started.using(server.endpoint)
    using.call("producer", name="producer", topic=PARENT)
    yield using
    started.end()


def group(server: PymqProxy, name: str, *attributes: str, is_orderly: bool = False) -> str:
    wanted = {"+lite.bind.topic": PARENT, **dict(each.split("=") for each in attributes)}
    probe.create_group(server.broker, name, attributes=wanted, consumeMessageOrderly=is_orderly)
    return name


def send(driver: Driver, lite: str, text: str) -> None:
    driver.call("send", name="producer", topic=PARENT, lite=lite, body=text.encode())


def bodies(driver: Driver, name: str, count: int) -> list[tuple[str, str]]:
    """Wait for so many messages, and return each with its lite topic."""
    found = driver.await_messages(name, lambda seen: len(seen) >= count, WAIT_S)
    return [(one["lite"], body(one).decode()) for one in found]


def test_a_lite_push_consumer_gets_its_lite_topics_in_order(server: PymqProxy, driver: Driver) -> None:
    driver.call("lite", name="one", group=group(server, "JavaLites", is_orderly=True), topic=PARENT)
    for lite in ("a", "b"):
        driver.call("lite_subscribe", name="one", lite=lite)
    for lite, text in (("a", "a0"), ("other", "o0"), ("a", "fail 1 a1"), ("b", "b0"), ("a", "a2")):
        send(driver, lite, text)
    found = bodies(driver, "one", 5)
    assert [text for lite, text in found if lite == "a"] == ["a0", "fail 1 a1", "fail 1 a1", "a2"], "a retry in order"
    assert [text for lite, text in found if lite == "b"] == ["b0"] and len(found) == 5
    driver.call("lite_unsubscribe", name="one", lite="b")
    send(driver, "b", "b1")
    send(driver, "a", "a3")
    assert bodies(driver, "one", 6)[-1] == ("a", "a3")
    driver.call("close", name="one")


def test_an_exclusive_consumer_learns_that_it_has_lost_a_lite_topic(server: PymqProxy, driver: Driver) -> None:
    name = group(server, "JavaExclusive", "+lite.sub.model=Exclusive")
    for consumer in ("old", "new"):
        driver.call("lite", name=consumer, group=name, topic=PARENT)
    driver.call("lite_subscribe", name="old", lite="x")
    driver.call("lite_subscribe", name="new", lite="x")
    probe.wait_until("the loss", lambda: driver.call("lite_topics", name="old") == [])
    send(driver, "x", "x0")
    assert bodies(driver, "new", 1) == [("x", "x0")] and not driver.messages("old")
    for consumer in ("old", "new"):
        driver.call("close", name=consumer)


def test_a_quota_is_an_error_of_the_client(server: PymqProxy, driver: Driver) -> None:
    name = group(server, "JavaQuota", "+lite.sub.client.quota=1")
    driver.call("lite", name="full", group=name, topic=PARENT)
    driver.call("lite_subscribe", name="full", lite="a")
    with pytest.raises(DriverError, match=r"LITE_SUBSCRIPTION_QUOTA|[Qq]uota"):
        driver.call("lite_subscribe", name="full", lite="b")
    driver.call("close", name="full")
