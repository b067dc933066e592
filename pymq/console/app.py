"""The console as an ASGI application: from an address to a page, and from an error to a page that says it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from urllib.parse import unquote_to_bytes, urlencode

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route, Router

from pymq.clock import Clock
from pymq.console.asking.clusters import BusyError, Clusters
from pymq.console.pages.brokers import brokers
from pymq.console.pages.page import PAGE_TIMEOUT_S, MakePage, Page, Visit
from pymq.console.pages.rendering import make_environment
from pymq.console.pages.topics import topics
from pymq.console.web.asgi import App, Receive, Scope, Send, answer_text
from pymq.console.web.bodies import parse_form
from pymq.console.web.headers import Headers
from pymq.console.web.origins import OriginCheck, Origins
from pymq.console.web.parameters import BadRequest, Parameters
from pymq.console.web.static_files import KEPT, StaticFiles
from pymq.errors import NotFoundError, PymqError, RefusedError, UnreachableError
from pymq.wire.codes import ResponseCode

log = logging.getLogger(__name__)

HTML: Final = "text/html; charset=utf-8"
JSON: Final = "application/json"
FORMATS: Final = ("html", "json")
# Sections of the navigation, by their path below a context.
NAVIGATION: Final = (("Brokers", "brokers"), ("Topics", "topics"))
PAGES: Final[Mapping[str, MakePage]] = {"brokers": brokers, "topics": topics}


@dataclass(frozen=True)
class Shell:
    """What is around each page of one console."""

    clusters: Clusters
    clock: Clock
    static: StaticFiles
    allow_changes: bool = False


class Console:
    """Answers requests with pages."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._templates = make_environment()
        routes = [
            Route("/", self._begin),
            Route("/static/{name}", self._static),
            Route("/at/{context}/", self._begin_of_context),
            *(Route(f"/at/{{context}}/{path}", partial(self._page, path, make)) for path, make in PAGES.items()),
        ]
        self._router = Router(routes, redirect_slashes=False, default=self._not_found)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if _has_bad_text(scope["raw_path"]):
            await answer_text(send, 400, "The address is not UTF-8.")
            return
        await self._router(scope, receive, send)

    async def _not_found(self, scope: Scope, receive: Receive, send: Send) -> None:
        await answer_text(send, 404, "There is no such page.")

    async def _begin(self, request: Request) -> Response:
        return RedirectResponse(f"/at/{next(iter(self._shell.clusters.contexts))}/", 303)

    async def _begin_of_context(self, request: Request) -> Response:
        return RedirectResponse(f"/at/{request.path_params['context']}/brokers", 303)

    async def _static(self, request: Request) -> Response:
        file = self._shell.static.find(request.path_params["name"])
        if file is None:
            return Response("There is no such file.\n", 404, media_type="text/plain")
        headers = {"cache-control": KEPT.decode()}
        return Response(file.content, headers=headers, media_type=file.kind.decode())

    async def _page(self, section: str, make: MakePage, request: Request) -> Response:
        context = request.path_params["context"]
        parameters, wanted = Parameters([]), "html"
        try:
            parameters = parse_form(request.scope["query_string"])
            wanted = parameters.choice("format", "html", FORMATS)
            cluster = self._shell.clusters.get(context, None)
            visit = Visit(cluster, parameters, request.path_params, self._shell.clock.now_ms())
            async with asyncio.timeout(PAGE_TIMEOUT_S):
                page = await make(visit)
        except (PymqError, BadRequest, TimeoutError) as error:
            return self._problem(section, context, parameters, wanted, error)
        return self._answer(200, section, context, parameters, wanted, page)

    def _problem(self, section: str, context: str, parameters: Parameters, wanted: str, error: Exception) -> Response:
        status, text, advice = problem_of(error)
        if context not in self._shell.clusters.contexts:
            context = next(iter(self._shell.clusters.contexts))
        page = Page(
            _TITLES.get(status, "This did not work"),
            "problem.html",
            {"error": text, "status": status},
            ("cluster", "list"),
            {"problem": text, "advice": advice},
        )
        return self._answer(status, section, context, parameters, wanted, page)

    def _answer(
        self, status: int, section: str, context: str, parameters: Parameters, wanted: str, page: Page
    ) -> Response:
        now_ms = self._shell.clock.now_ms()
        if wanted == "json":
            body = {**page.data, "asOfMs": now_ms, "missing": page.missing}
            return Response(msgspec.json.encode(body) + b"\n", status, media_type=JSON)
        surroundings: dict[str, Any] = {
            "page": page,
            "context": context,
            "section": section,
            "navigation": NAVIGATION,
            "now_ms": now_ms,
            "allow_changes": self._shell.allow_changes,
            "static": lambda name: f"/static/{self._shell.static.name_of(name)}",
            "at": lambda path: f"/at/{context}/{path}",
            "query": lambda **changes: urlencode(parameters.with_changes(changes)),
            "json_query": urlencode(parameters.with_changes({"format": "json"})),
        }
        html = self._templates.get_template(page.template).render(**page.shown, **surroundings)
        return Response(html.encode("utf-8", "backslashreplace"), status, media_type=HTML)


_TITLES: Final = {
    400: "This address can't be read",
    403: "This was refused",
    404: "This is not there",
    502: "The cluster does not answer",
    504: "The cluster did not answer in time",
}


def problem_of(error: Exception) -> tuple[int, str, str]:
    """Return the status of an error's page, what it says, and what to do next."""
    if isinstance(error, BadRequest):
        return error.status, str(error), "Go back, and change it."
    if isinstance(error, TimeoutError):
        return 504, f"The cluster did not answer within {PAGE_TIMEOUT_S:g} s.", "Load the page again in a moment."
    if isinstance(error, BusyError):
        return 503, str(error), ""
    if isinstance(error, NotFoundError):
        return 404, str(error), ""
    if isinstance(error, RefusedError):
        is_right = error.code == ResponseCode.NO_PERMISSION
        return 403 if is_right else 502, str(error), "pymq auth check shows which rule decides." if is_right else ""
    if isinstance(error, UnreachableError):
        return 502, str(error), "pymq doctor finds out why."
    return 502, str(error), ""


def _has_bad_text(raw_path: bytes) -> bool:
    """Return whether a path holds bytes that are no UTF-8, or a NUL."""
    path = unquote_to_bytes(raw_path)
    try:
        path.decode()
    except UnicodeDecodeError:
        return True
    return b"\0" in path


def make_app(console: Console, origins: Origins, *, is_encrypted: bool = False) -> App:
    """Return the whole application: the console behind the checks of every request."""
    return Headers(OriginCheck(console, origins), is_encrypted=is_encrypted)
