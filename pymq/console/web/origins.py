"""Which Host a browser may name, and from which Origin a form may come.

A page on another site can make a browser send requests here. A name that a stranger registers for 127.0.0.1 would make
them look like requests of that site to itself. So a request must name this console, and a change must come from a page
of this console.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from pymq.console.web.asgi import App, Receive, Scope, Send, answer_text, header_values
from pymq.errors import UsageError
from pymq.printable import printable

LOOPBACK_NAMES: Final = ("127.0.0.1", "localhost", "[::1]")
READING_METHODS: Final = frozenset({"GET", "HEAD"})
_PORTS: Final = {"http": 80, "https": 443}
_SHOWN_CHARACTERS: Final = 100


class Origins:
    """The addresses of one console, as browsers know them: texts like ``http://127.0.0.1:8082``."""

    def __init__(self, origins: list[str]) -> None:
        self.all = tuple(origins)
        self._origins = {origin.encode() for origin in origins}
        self._hosts = {host for origin in origins for host in _hosts_of(origin)}

    @classmethod
    def of_listener(cls, host: str, port: int, scheme: str) -> Origins:
        """Return the origins of a console that browsers reach at its own address; on loopback by each name of it."""
        shown = f"[{host}]" if ":" in host else host
        names = LOOPBACK_NAMES if shown in LOOPBACK_NAMES else (shown,)
        return cls([_origin(scheme, name, port) for name in names])

    @classmethod
    def of_public_url(cls, url: str) -> Origins:
        """Return the one origin of a console behind a proxy. Raises UsageError for another text than of an origin."""
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise UsageError(f"--public-url {url!r}: {error}") from None
        is_origin = parts.path in ("", "/") and not parts.query and not parts.fragment and parts.username is None
        if parts.scheme not in _PORTS or not parts.hostname or not is_origin:
            raise UsageError(f"--public-url {url!r}: give scheme and host alone, such as https://console.example.org")
        name = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        return cls([_origin(parts.scheme, name, port or _PORTS[parts.scheme])])

    def has_host(self, host: bytes) -> bool:
        """Return whether a request with this Host header is for this console."""
        return host.lower() in self._hosts

    def has_origin(self, origin: bytes) -> bool:
        """Return whether a request with this Origin header came from a page of this console."""
        return origin in self._origins


def _origin(scheme: str, name: str, port: int) -> str:
    """Return an origin as browsers write it: without the port that the scheme has anyway."""
    return f"{scheme}://{name}" if port == _PORTS[scheme] else f"{scheme}://{name}:{port}"


def _hosts_of(origin: str) -> set[bytes]:
    parts = urlsplit(origin)
    return {parts.netloc.encode(), *([f"{parts.netloc}:{_PORTS[parts.scheme]}".encode()] if parts.port is None else [])}


class OriginCheck:
    """Lets requests through that name this console, and changes that come from its own pages."""

    def __init__(self, app: App, origins: Origins) -> None:
        self._app = app
        self._origins = origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif problem := self._problem(scope):
            await answer_text(send, *problem)
        else:
            await self._app(scope, receive, send)

    def _problem(self, scope: Scope) -> tuple[int, str] | None:
        hosts = header_values(scope, b"host")
        if len(hosts) != 1 or not self._origins.has_host(hosts[0]):
            named = _shown(hosts[0]) if hosts else "no host"
            return 421, (
                f"This console is not at {named}: use {self._origins.all[0]}. "
                "Behind a proxy, start it with --behind-proxy and --public-url."
            )
        if scope["method"] in READING_METHODS:
            return None
        origins, sites = header_values(scope, b"origin"), header_values(scope, b"sec-fetch-site")
        if len(origins) != 1 or not self._origins.has_origin(origins[0]):
            named = _shown(origins[0]) if origins else "an unknown page"
            return 403, f"A change came from {named}: changes come from pages of {self._origins.all[0]} alone."
        if sites and sites != [b"same-origin"]:
            return 403, "A change came from a page of another site."
        return None


def came_from_another_site(scope: Scope) -> bool:
    """Return whether a browser says that a page of another site, or port, asked for this."""
    return any(site not in (b"same-origin", b"none") for site in header_values(scope, b"sec-fetch-site"))


def _shown(value: bytes) -> str:
    return printable(value[:_SHOWN_CHARACTERS].decode("latin-1"))
