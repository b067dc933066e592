"""Counts answers by their status, for metrics."""

from __future__ import annotations

from collections import Counter

from pymq.console.web.asgi import App, Message, Receive, Scope, Send


class Counted:
    """Passes requests to ``app``. ``answers``: how many there were of each status."""

    def __init__(self, app: App) -> None:
        self._app = app
        self.answers: Counter[int] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self.answers[message["status"]] += 1
            await send(message)

        await self._app(scope, receive, send_counted)
