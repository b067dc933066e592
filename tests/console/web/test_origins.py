"""A request names this console, and a change comes from its own page."""

from __future__ import annotations

import pytest

from pymq.console.web.asgi import Receive, Scope, Send, answer_text
from pymq.console.web.origins import OriginCheck, Origins
from pymq.errors import UsageError
from tests.console.asgi import HOST, ORIGIN, Answer, request


async def done(scope: Scope, receive: Receive, send: Send) -> None:
    await answer_text(send, 200, "done")


CHECK = OriginCheck(done, Origins.of_listener("127.0.0.1", 8082, "http"))


def post(headers: dict[str, str], host: str = HOST) -> Answer:
    return request(CHECK, "/", method="POST", headers=headers, host=host)


@pytest.mark.parametrize("host", [HOST, "localhost:8082", "LOCALHOST:8082", "[::1]:8082"])
def test_each_name_of_loopback_is_this_console(host: str) -> None:
    assert request(CHECK, "/", host=host).status == 200


@pytest.mark.parametrize(
    "host", ["evil.example:8082", "127.0.0.1", "127.0.0.1:80", "127.0.0.1:8082.evil.example", "", "\xff<script>"]
)
def test_another_host_is_answered_with_the_right_one(host: str) -> None:
    answer = request(CHECK, "/", host=host)
    assert answer.status == 421
    assert ORIGIN in answer.text


def test_a_request_without_a_host_or_with_two_is_refused() -> None:
    assert request(CHECK, "/", host=None).status == 421
    assert request(CHECK, "/", headers={"Host": HOST}).status == 421


def test_a_change_comes_from_a_page_of_this_console() -> None:
    assert post({"Origin": ORIGIN}).status == 200
    assert post({"Origin": ORIGIN, "Sec-Fetch-Site": "same-origin"}).status == 200
    assert post({"Origin": "http://localhost:8082"}, host="localhost:8082").status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "null"},
        {"Origin": "http://evil.example"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Origin": "https://127.0.0.1:8082"},
        {"Origin": ORIGIN, "Sec-Fetch-Site": "same-site"},
        {"Origin": ORIGIN, "Sec-Fetch-Site": "cross-site"},
        {"Origin": ORIGIN, "Sec-Fetch-Site": "none"},
    ],
)
def test_a_change_from_elsewhere_is_refused(headers: dict[str, str]) -> None:
    assert post(headers).status == 403


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "QUERY"])
def test_every_method_but_those_that_read_is_a_change(method: str) -> None:
    assert request(CHECK, "/", method=method).status == 403


def test_a_console_behind_a_proxy_has_the_origin_of_its_public_url() -> None:
    check = OriginCheck(done, Origins.of_public_url("https://Console.example.org/"))
    assert request(check, "/", host="console.example.org").status == 200
    assert request(check, "/", host="console.example.org:443").status == 200
    assert request(check, "/", host="127.0.0.1:8082").status == 421
    headers = {"Origin": "https://console.example.org"}
    assert request(check, "/", method="POST", headers=headers, host="console.example.org").status == 200


@pytest.mark.parametrize(
    "url",
    [
        *("", "console.example.org", "ftp://console.example.org", "https://", "https://a.example/path"),
        *("https://a.example?x=1", "https://a.example#x", "https://me:secret@a.example", "https://a.example:port"),
    ],
)
def test_a_public_url_is_an_origin(url: str) -> None:
    with pytest.raises(UsageError, match="public-url"):
        Origins.of_public_url(url)


def test_an_own_address_has_its_port_and_ipv6_its_brackets() -> None:
    assert Origins.of_listener("10.0.0.5", 443, "https").all == ("https://10.0.0.5",)
    assert Origins.of_listener("fe80::1", 8082, "http").all == ("http://[fe80::1]:8082",)
