"""The headers of every answer: of pages, errors, streams and files."""

from __future__ import annotations

from typing import Final

from pymq.console.web.asgi import App, Message, Receive, Scope, Send

# The page loads nothing from elsewhere, runs no script that stands in it, and stands in no frame. Texts become
# markup by one function of static/console.js, which parses answers of this console.
CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; require-trusted-types-for 'script'; trusted-types pymq"
)
ALWAYS: Final = {
    b"content-security-policy": CONTENT_SECURITY_POLICY.encode(),
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    b"referrer-policy": b"same-origin",  # with no-referrer, browsers send forms with "Origin: null"
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    b"permissions-policy": b"accelerometer=(), camera=(), display-capture=(), geolocation=(), microphone=(), usb=()",
}
CACHE_CONTROL: Final = b"cache-control"
NO_STORE: Final = b"no-store"
STRICT_TRANSPORT: Final = (b"strict-transport-security", b"max-age=31536000")


class Headers:
    """Adds the headers to each answer of ``app``. An answer may say itself for how long it may be kept.

    ``is_encrypted``: browsers come by TLS, and shall come by TLS alone.
    """

    def __init__(self, app: App, *, is_encrypted: bool = False) -> None:
        self._app = app
        self._added = [*ALWAYS.items(), *([STRICT_TRANSPORT] if is_encrypted else [])]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = [(name, value) for name, value in message["headers"] if name not in ALWAYS]
                if all(name != CACHE_CONTROL for name, _ in given):
                    given.append((CACHE_CONTROL, NO_STORE))
                message["headers"] = [*given, *self._added]
            await send(message)

        await self._app(scope, receive, send_with_headers)
