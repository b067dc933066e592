"""From an address to a page, and from an error to a page that says it."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from pymq.clock import ManualClock
from pymq.console import answers
from pymq.console.answers import NAVIGATION, Shell
from pymq.console.app import PAGES, Console, make_app
from pymq.console.asking.clusters import Clusters
from pymq.console.pages.page import Download, Events, NotShown, Page, Visit
from pymq.console.people.log_in import LogIns
from pymq.console.people.sessions import Session, Sessions
from pymq.console.web.headers import ALWAYS
from pymq.console.web.origins import Origins
from pymq.console.web.static_files import StaticFiles
from pymq.console.web.streams import STREAMS_OF_OWNER_MAX, Streams
from pymq.errors import NotFoundError, RefusedError, UnreachableError, UsageError
from pymq.operations.auth.proof import Proof
from pymq.security.credentials import Credentials
from tests.console.asgi import ORIGIN, Answer, request
from tests.console.asking.test_cluster import FakeAdmin

HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "\"'><script>alert(1)</script>",
    "{{ 7*7 }}${7*7}",
    "javascript:alert(1)",
    "\u202egnp.exe",
    "a\x00b\x1b[31m",
    "\ud800",
    "😀",
    "x" * 65536,
]
FORM = {"Origin": ORIGIN, "Content-Type": "application/x-www-form-urlencoded"}


class World:
    """A console of two contexts with one page, ``things``, that does what a test says."""

    def __init__(self, *, needs_log_in: bool = False) -> None:
        self.clock = ManualClock()
        self.sessions = Sessions(self.clock, 8082, ["prod", "test"])
        self.asked_by: list[Session | None] = []
        self.make: Callable[[Visit], Any] = lambda visit: {"things": [1, 2]}
        clusters = Clusters({"prod": "10.0.0.1:9876", "test": "10.0.0.2:9876"}, self._admin, self.clock)
        log_ins = LogIns(self.sessions, self._prove, self.clock, self._sleep)
        static, self.streams = StaticFiles("pymq.console"), Streams()
        self.shell = Shell(clusters, self.sessions, log_ins, self.clock, static, needs_log_in, streams=self.streams)
        origins = Origins.of_listener("127.0.0.1", 8082, "http")
        self.app = make_app(Console(self.shell, {"things": self._page}), origins)

    def _admin(self, context: str, session: Session | None) -> Any:
        self.asked_by.append(session)
        return FakeAdmin()

    async def _prove(self, context: str, credentials: Credentials) -> Proof:
        return Proof.proven if credentials.reveal() == "right" else Proof.unproven

    async def _sleep(self, seconds: float) -> None:
        self.clock.advance(round(seconds * 1000))

    async def _page(self, visit: Visit) -> Page | Download | Events:
        data = self.make(visit)
        if asyncio.iscoroutine(data):
            data = await data
        if isinstance(data, Download | Events):
            return data
        return Page("Things", "problem.html", data, ("topic", "list"), {"problem": str(data), "advice": ""})

    def get(self, path: str = "/at/prod/things", query: str = "", cookie: str | None = None) -> Answer:
        headers = {} if cookie is None else {"Cookie": cookie}
        return request(self.app, path, query=query, headers=headers)

    def post(self, path: str, cookie: str | None = None, **fields: str) -> Answer:
        headers = FORM if cookie is None else FORM | {"Cookie": cookie}
        return request(self.app, path, method="POST", headers=headers, body=urlencode(fields).encode())

    def log_in(self, context: str = "prod", **fields: str) -> str:
        answer = self.post(f"/at/{context}/login", name="reader", secret="right", **fields)
        assert answer.status == 303, answer.text
        return (answer.header("set-cookie") or "").partition(";")[0]


def test_the_first_address_leads_to_the_first_context() -> None:
    world = World()
    assert world.get("/").header("location") == "/at/prod/"


def test_a_page_is_html_and_json_with_its_time() -> None:
    world = World()
    answer = world.get()
    assert answer.status == 200 and answer.header("content-type") == "text/html; charset=utf-8"
    assert "<h1>Things</h1>" in answer.text and "2023-11-14T22:13:20Z" in answer.text
    assert "pymq topic list" in answer.text
    assert json.loads(world.get(query="format=json").body) == {
        "things": [1, 2],
        "asOfMs": world.clock.now_ms(),
        "missing": {},
    }


def test_the_time_of_a_page_is_that_of_its_oldest_answer() -> None:
    world = World()

    async def make(visit: Visit, work_ms: int) -> dict[str, Any]:
        async def ask(admin: Any) -> int:
            world.clock.advance(work_ms)
            return 1

        return {"a": await visit.cluster.ask("a", ask)}

    world.make = lambda visit: make(visit, 5_000)
    begun_ms = world.clock.now_ms()
    assert json.loads(world.get(query="format=json").body)["asOfMs"] == begun_ms + 5_000
    world.clock.advance(30_000)
    assert json.loads(world.get(query="format=json").body)["asOfMs"] == begun_ms + 5_000
    assert "2023-11-14T22:13:25Z" in world.get().text
    world.clock.advance(30_000)
    assert json.loads(world.get(query="format=json").body)["asOfMs"] == begun_ms + 70_000


@pytest.mark.parametrize("path", ["/none", "/at/prod", "/at/prod/none", "/at/prod/things/", "/static/none.css", "//"])
def test_other_addresses_are_not_there(path: str) -> None:
    assert World().get(path).status == 404


@pytest.mark.parametrize("path", ["/%ff", "/at/prod/%00", "/at/%ed%a0%80/things"])
def test_an_address_that_is_no_text_is_refused(path: str) -> None:
    assert World().get(path).status == 400


def test_an_unknown_context_is_named_and_never_asked() -> None:
    world = World()
    answer = world.get("/at/10.0.0.66:9876/things")
    assert answer.status == 404
    assert "10.0.0.66:9876" in answer.text and "prod, test" in answer.text
    assert not world.asked_by


@pytest.mark.parametrize(
    ("error", "status", "advice"),
    [
        (UnreachableError("10.0.0.1:9876 can't be reached"), 502, "pymq doctor"),
        (NotFoundError("no topic 'x'"), 404, ""),
        (RefusedError(16, "User:reader has no permission to access Topic:x"), 403, "pymq auth check"),
        (RefusedError(1, "the store is full"), 502, ""),
        (UsageError("'a b' is no name of a group"), 400, "change it"),
        (TimeoutError(), 504, "again in a moment"),
    ],
)
def test_an_error_is_a_page_that_says_it(error: Exception, status: int, advice: str) -> None:
    world = World()

    def fail(visit: Visit) -> Any:
        raise error

    world.make = fail
    answer = world.get()
    assert answer.status == status
    assert advice in answer.text
    assert re.sub(r"&#39;", "'", answer.text).count(str(error)) >= 1
    found = json.loads(world.get(query="format=json").body)
    assert found["status"] == status and str(error) in found["error"]


def test_a_fault_of_a_page_is_logged_and_shows_nothing(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.make = lambda visit: {"secret key": 1 // 0}
    answer = world.get()
    assert answer.status == 500
    assert "ZeroDivisionError" in answer.text and "secret key" not in answer.text
    assert "the page things" in caplog.text


def test_a_page_that_takes_too_long_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "PAGE_TIMEOUT_S", 0.01)
    world = World()
    world.make = lambda visit: asyncio.Event().wait()
    assert world.get().status == 504


def test_parameters_are_checked_and_named() -> None:
    world = World()
    world.make = lambda visit: {"page": visit.parameters.number("page", 1, minimum=1, maximum=9)}
    assert world.get(query="page=5").status == 200
    wrong = ("page=x", "page=1&page=2", f"page={2**63}", "page=-1", "format=xml", "page=%FF", "format=html&format=json")
    for query in wrong:
        answer = world.get(query=query)
        assert answer.status == 400, query
    assert "page: " in world.get(query="page=x").text


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_texts_stay_texts(text: str) -> None:
    world = World()
    world.make = lambda visit: {"text": text}
    for answer in (world.get(), world.get(query="q=" + quote(text.encode("utf-8", "replace"))[:4000])):
        assert answer.status in (200, 400)
        assert "<img" not in answer.text and "<script>" not in answer.text
        assert "\u202e" not in answer.text and "\x1b" not in answer.text and "\x00" not in answer.text
    assert json.loads(world.get(query="format=json").body)["text"] == text


def test_every_answer_has_the_headers() -> None:
    world = World()
    for answer in (world.get(), world.get("/none"), world.get("/"), world.post("/at/prod/login"), world.get("/%ff")):
        for name, value in ALWAYS.items():
            assert answer.header(name.decode()) == value.decode()


def test_only_reading_methods_and_forms_have_routes() -> None:
    world = World()
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS"):
        for path in ("/", "/at/prod/things", "/at/prod/login"):
            assert request(world.app, path, method=method, headers=FORM).status == 405
    assert request(world.app, "/at/prod/things", method="POST", headers=FORM).status == 405
    assert request(world.app, "/at/prod/things", method="HEAD").status == 200


def test_a_download_is_bytes_that_no_browser_shows() -> None:
    world = World()
    world.make = lambda visit: Download(b"<script>alert(1)</script>", "body.bin")
    answer = world.get()
    assert answer.body == b"<script>alert(1)</script>" and answer.header("content-length") == "25"
    assert answer.header("content-type") == "application/octet-stream"
    assert answer.header("content-disposition") == 'attachment; filename="body.bin"'
    assert answer.header("x-content-type-options") == "nosniff" and answer.header("cache-control") == "no-store"


def test_what_is_not_shown_is_refused() -> None:
    world = World()

    def fail(visit: Visit) -> Any:
        assert visit.shows_bodies
        raise NotShown("body", "bodies are hidden")

    world.make = fail
    answer = world.get()
    assert answer.status == 403 and "bodies are hidden" in answer.text


class TestStreams:
    """Streams of events."""

    def test_a_stream_has_the_headers_and_its_events(self) -> None:
        world = World()

        async def events() -> AsyncIterator[bytes]:
            yield b"event: round\ndata: 1"
            await asyncio.Event().wait()

        world.make = lambda visit: Events(events())
        answer = world.get()  # the browser goes away at once
        assert answer.status == 200 and answer.header("content-type") == "text/event-stream; charset=utf-8"
        assert answer.header("cache-control") == "no-store" and answer.header("content-security-policy")
        assert not len(world.streams)

    def test_the_head_of_a_stream_is_no_stream(self) -> None:
        world = World()

        async def events() -> AsyncIterator[bytes]:
            yield b"event: round"

        world.make = lambda visit: Events(events())
        answer = request(world.app, "/at/prod/things", method="HEAD", stays=True)
        assert answer.status == 200 and not answer.body and not len(world.streams)

    def test_a_stream_ends_with_its_session(self) -> None:
        world = World()
        cookie = world.log_in()
        (session,) = world.sessions

        async def events() -> AsyncIterator[bytes]:
            world.sessions.end(session)
            yield b"event: round\ndata: 1"
            await asyncio.Event().wait()

        world.make = lambda visit: Events(events())
        scope = {"Cookie": cookie}
        answer = request(world.app, "/at/prod/things", headers=scope, stays=True)
        assert answer.text.endswith('event: end\ndata: "you are logged out"\n\n')
        assert len(session.on_end) == 1, "the client of the session is closed with it, the stream is forgotten"
        assert not len(world.streams)

    def test_too_many_streams_are_refused(self) -> None:
        world = World()
        for _ in range(STREAMS_OF_OWNER_MAX):
            world.streams.open("address 127.0.0.1")

        async def events() -> AsyncIterator[bytes]:
            yield b""

        world.make = lambda visit: Events(events())
        answer = world.get()
        assert answer.status == 503 and "live pages of yours are open" in answer.text


class TestLogIn:
    """Who may see a page."""

    def test_a_cluster_that_wants_a_person_leads_to_the_log_in(self) -> None:
        world = World()

        def fail(visit: Visit) -> Any:
            raise RefusedError(16, "username cannot be null.")

        world.make = fail
        answer = world.get(query="q=a b".replace(" ", "+"))
        assert answer.status == 303
        assert answer.header("location") == "/at/prod/login?next=%2Fat%2Fprod%2Fthings%3Fq%3Da%2Bb"
        assert world.get(query="format=json").status == 403

    def test_a_console_for_others_wants_a_person_everywhere(self) -> None:
        world = World(needs_log_in=True)
        assert world.get().status == 303
        assert not world.asked_by
        assert world.get(cookie=world.log_in()).status == 200

    def test_a_person_asks_as_that_person_in_one_context(self) -> None:
        world = World()
        cookie = world.log_in()
        answer = world.get(cookie=cookie)
        assert "reader" in answer.text and "Log out" in answer.text
        world.get("/at/test/things", cookie=cookie)
        assert [who and who.name for who in world.asked_by] == ["reader", None]

    def test_a_wrong_secret_is_said_on_the_page(self) -> None:
        world = World()
        answer = world.post("/at/prod/login", name="reader", secret="wrong", next="/at/prod/things")
        assert answer.status == 403 and "are not right" in answer.text
        assert 'value="reader"' in answer.text and "wrong" not in answer.text
        assert 'value="/at/prod/things"' in answer.text
        assert answer.header("set-cookie") is None

    @pytest.mark.parametrize(
        "following",
        [
            *("https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)", "/at/test/things"),
            *("/at/prod/\r\nSet-Cookie: a=b", "/at/prod/\\evil", "/at/prod/login", "", "/at/prod/ä"),
        ],
    )
    def test_after_the_log_in_comes_a_page_of_this_context(self, following: str) -> None:
        answer = World().post("/at/prod/login", name="reader", secret="right", next=following)
        assert answer.status == 303 and answer.header("location") == "/at/prod/"

    def test_the_page_that_was_wanted_comes_after_the_log_in(self) -> None:
        answer = World().post("/at/prod/login", name="reader", secret="right", next="/at/prod/things?q=x")
        assert answer.header("location") == "/at/prod/things?q=x"

    def test_a_new_log_in_ends_the_session_before(self) -> None:
        world = World()
        before = world.log_in()
        headers = FORM | {"Cookie": before}
        body = urlencode({"name": "reader", "secret": "right"}).encode()
        assert request(world.app, "/at/prod/login", method="POST", headers=headers, body=body).status == 303
        assert len(world.sessions) == 1
        assert "Log out" not in world.get(cookie=before).text

    def test_log_out_needs_the_token_of_the_session(self) -> None:
        world = World()
        cookie, other = world.log_in(), world.log_in()
        page = world.get(cookie=cookie).text
        token = re.findall(r'name="token" value="([^"]+)"', page)[0]
        assert world.post("/at/prod/logout", cookie, token="").status == 400
        assert world.post("/at/prod/logout", other, token=token).status == 400
        assert world.post("/at/prod/logout", token=token).status == 400
        assert world.post("/at/prod/logout", cookie).status == 400
        assert len(world.sessions) == 2
        answer = world.post("/at/prod/logout", cookie, token=token)
        assert answer.status == 303 and "Max-Age=0" in (answer.header("set-cookie") or "")
        assert "Log out" not in world.get(cookie=cookie).text
        assert len(world.sessions) == 1

    def test_a_user_who_is_gone_has_no_session(self) -> None:
        world = World()
        cookie = world.log_in()

        def fail(visit: Visit) -> Any:
            raise RefusedError(16, "User:reader is not found.")

        world.make = fail
        assert world.get(cookie=cookie).status == 303
        assert not len(world.sessions)

    def test_a_missing_right_keeps_the_session(self) -> None:
        world = World()
        cookie = world.log_in()

        def fail(visit: Visit) -> Any:
            raise RefusedError(16, "User:reader has no permission to access Cluster:*")

        world.make = fail
        assert world.get(cookie=cookie).status == 403
        assert len(world.sessions) == 1

    @pytest.mark.parametrize("fields", [{}, {"name": "a"}, {"secret": "b"}, {"name": "x" * 129, "secret": "b"}])
    def test_a_form_without_its_fields_is_refused(self, fields: dict[str, str]) -> None:
        assert World().post("/at/prod/login", **fields).status == 400


def test_the_navigation_leads_to_pages_that_are_there() -> None:
    assert {path for _, path, _ in NAVIGATION} <= PAGES.keys() | {"about"}


def test_a_template_that_does_not_fit_is_a_fault_that_is_said(caplog: pytest.LogCaptureFixture) -> None:
    async def things(visit: Visit) -> Page:
        return Page("Things", "topics.html", {}, ())

    world = World()
    app = make_app(Console(world.shell, {"things": things}), Origins.of_listener("127.0.0.1", 8082, "http"))
    answer = request(app, "/at/prod/things")
    assert answer.status == 500 and "This is a fault of the console" in answer.text
    assert answer.header("content-security-policy") and "the page things" in caplog.text
