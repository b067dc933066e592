"""One length of a request's body: a request with two may be read in two ways, by a proxy and by this console."""

from __future__ import annotations

from typing import Final

from pymq.console.web.asgi import App, Receive, Scope, Send, answer_text, header_values

CLOSE: Final = (b"connection", b"close")


class OneLength:
    """Passes requests to ``app`` whose body has one length. Another one is refused, and its connection ends."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if header_values(scope, b"content-length") and header_values(scope, b"transfer-encoding"):
            await answer_text(send, 400, "A request has chunks or a length, and not both.", CLOSE)
        else:
            await self._app(scope, receive, send)
