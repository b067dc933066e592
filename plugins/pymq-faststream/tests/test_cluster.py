"""URLs, users, TLS and options: what is taken, and what the refusals say."""

from __future__ import annotations

import ssl
from typing import Any

import pytest
from faststream.security import BaseSecurity, SASLPlaintext, SASLScram256
from pymq_faststream import PymqBroker
from pymq_faststream.cluster import cluster_of

from pymq.client import Tls
from pymq.errors import UsageError


@pytest.mark.parametrize(
    ("url", "namesrv"),
    [
        (None, None),
        ("localhost", "localhost:9876"),
        ("localhost:1", "localhost:1"),
        ("pymq://one:1,two/", "one:1;two:9876"),
        ("one:1;two:2", "one:1;two:2"),
        (["one", "pymq://two:2"], "one:9876;two:2"),
        ("[::1]", "[::1]:9876"),
        ("http://host:8080/rocketmq/nsaddr", "http://host:8080/rocketmq/nsaddr"),
    ],
)
def test_urls(url: Any, namesrv: str | None) -> None:
    assert cluster_of(url).namesrv == namesrv


def test_users_and_tls() -> None:
    of_url = cluster_of("pymq://ada:s%2Fe%40c@host").credentials
    assert of_url is not None
    assert of_url.access_key == "ada"
    secured = cluster_of("host", security=SASLPlaintext("ada", "secret", use_ssl=True))
    assert secured.credentials is not None
    assert (secured.credentials.access_key, secured.tls) == ("ada", Tls())
    assert cluster_of("host", security=BaseSecurity(use_ssl=True), tls=Tls("ca.pem")).tls == Tls("ca.pem")
    assert "s/e@c" not in repr(PymqBroker("pymq://ada:s%2Fe%40c@host").specification)


@pytest.mark.parametrize(
    ("url", "security", "text"),
    [
        ("redis://host", None, "the URL's scheme is 'redis': write pymq://host:9876"),
        ("pymq://ada@host", None, "the URL has no user and secret before its @: write pymq://user:secret@host"),
        ("pymq://:x@host", None, "no user and secret"),
        ("pymq://host/vhost", None, "'host/vhost' is no address of a name server"),
        ("one,,two", None, "'' is no address of a name server"),
        ("", None, "'' is no address"),
        ("host", SASLScram256("a", "b"), "security is a SASLScram256: use SASLPlaintext"),
        ("host", BaseSecurity(ssl.create_default_context()), "an ssl_context, which PyMQ's client does not take"),
    ],
)
def test_refused(url: str, security: BaseSecurity | None, text: str) -> None:
    with pytest.raises(UsageError) as raised:
        PymqBroker(url, security=security)
    assert text in str(raised.value)


@pytest.mark.parametrize(
    ("topics", "options", "text"),
    [
        ((), {}, "a subscriber without a topic"),
        (("a", "a"), {}, "the topics a, a name one twice"),
        (("logs.info",), {}, "logs.info"),
        (("a" * 128,), {}, "127"),
        (("a",), {"group": "g" * 256}, "255"),
        (("a",), {"max_retries": -1}, "max_retries is -1"),
        (("a",), {"queue": "x"}, "a subscriber has no option 'queue'"),
    ],
)
def test_options_of_subscribers_that_cannot_be(topics: tuple[str, ...], options: Any, text: str) -> None:
    with pytest.raises(UsageError) as raised:
        PymqBroker().subscriber(*topics, **options)
    assert text in str(raised.value)


def test_names_at_their_limits_are_taken() -> None:
    broker = PymqBroker()
    assert broker.subscriber("a" * 127, group="g" * 255).group == "g" * 255
    assert broker.subscriber("a", "b", max_retries=0).group == "faststream-a-b"
    with pytest.raises(UsageError):
        PymqBroker(group="a b")
