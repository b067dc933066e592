"""App: message handlers as decorated functions, in one process that starts, stops and fails as a whole.

One consumer serves all handlers of a group: two would be members that subscribe differently, and lose messages.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import signal
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

from pymq.client.app_handlers import Handlers
from pymq.client.codecs import Codec
from pymq.client.options import ConsumerOptions
from pymq.client.push_consumer import PushConsumer
from pymq.client.subscription import EVERYTHING
from pymq.errors import UsageError

log = logging.getLogger(__name__)

HandlerT = TypeVar("HandlerT", bound=Callable[..., Any])
HookT = TypeVar("HookT", bound=Callable[[], Any])

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class App:
    """Message handlers and the consumers that call them.

    Register handlers with :meth:`on`, then :meth:`run` the app, or use ``async with app`` within another program and in
    tests.
    ``group``: of the handlers that name none. ``options``: keywords of PushConsumer for all groups.
    """

    def __init__(
        self,
        *,
        namesrv: str | Sequence[str] | None = None,
        group: str | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        self._namesrv = namesrv
        self._group = group
        self._options = options
        self._groups: dict[str, Handlers] = {}
        self._consumers: list[PushConsumer] = []
        self._start_hooks: list[Callable[[], Any]] = []
        self._stop_hooks: list[Callable[[], Any]] = []
        self._ending: asyncio.Event | None = None
        self._started = False

    def on(
        self,
        topic: str,
        *,
        group: str | None = None,
        tags: str | None = None,
        sql: str | None = None,
        ordered: bool = False,
        codec: Codec[Any] | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> Callable[[HandlerT], HandlerT]:
        """Register a function for the messages of ``topic``; it stays callable as it is.

        It is called as ``handle(message)``, or with a ``codec`` as ``handle(value)`` or ``handle(value, message)``. A
        plain function runs in a thread. Its result is that of a PushConsumer's handler; a body that the codec can't
        read goes to the group's dead letters. ``tags``: ``TagA || TagB``. ``ordered``: each queue's messages one after
        the other; it holds for the whole group, and so do ``options``, keywords of PushConsumer.

        Raises UsageError for a second handler of the topic in the group, for options that differ from the group's, and
        without a group.
        """
        name = group or self._group
        if name is None:
            raise UsageError(f"the handler of {topic} has no group: give group= here, or to App for all handlers")
        if self._started:
            raise UsageError("the app runs: register handlers before it starts")
        merged: ConsumerOptions = {**self._options, **options}
        if ordered:
            merged["orderly"] = True
        handlers = self._groups.setdefault(name, Handlers(name, merged))

        def register(function: HandlerT) -> HandlerT:
            handlers.add(topic, function, EVERYTHING if tags is None else tags, sql, codec, merged)
            return function

        return register

    def on_start(self, hook: HookT) -> HookT:
        """Register a function or coroutine function that runs before the first consumer starts, in their order."""
        self._start_hooks.append(hook)
        return hook

    def on_stop(self, hook: HookT) -> HookT:
        """Register a function or coroutine function that runs after the last consumer has stopped, last one first."""
        self._stop_hooks.append(hook)
        return hook

    def run(self) -> None:
        """Consume until the process gets SIGTERM or SIGINT (Ctrl-C), then stop gracefully.

        Running handlers end, what they did is committed, and the members leave their groups. Raises what ended the app
        otherwise: an error of a start, a stop or a hook, or a consumer's failure.
        """
        from pymq.net.runtime import run  # noqa: PLC0415 - uvloop is only for a process of the app's own

        run(self.serve())

    async def serve(self) -> None:
        """As :meth:`run`, on the loop of the caller. :meth:`end` ends it too."""
        self._ending = asyncio.Event()
        loop = asyncio.get_running_loop()
        # Before the start: messages are handled already while it goes on, and a signal must not cut that short.
        caught = [one for one in SIGNALS if _catch(loop, one, self.end)]
        try:
            await self.start()
            await self._wait_for_end(self._ending)
        finally:
            for number in caught:  # a second signal ends the process at once
                loop.remove_signal_handler(number)
            await self.stop()

    async def _wait_for_end(self, ending: asyncio.Event) -> None:
        """Return once the app must end. Raises the failure of a consumer."""
        waits = [asyncio.ensure_future(one.wait()) for one in self._consumers]
        waits.append(asyncio.ensure_future(_wait(ending)))
        try:
            done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        for one in done:
            one.result()

    def end(self) -> None:
        """End :meth:`serve`; call it on the app's event loop."""
        if self._ending is not None and not self._ending.is_set():
            log.info("the app stops: running handlers end first")
            self._ending.set()

    async def start(self) -> None:
        """Run the start hooks and start all consumers. What was started is stopped again if one fails."""
        if not self._groups:
            raise UsageError("the app has no handlers: register one with @app.on(topic, group=…)")
        if self._started:
            raise UsageError("the app has been started before: make a new App")
        self._started = True
        try:
            for hook in self._start_hooks:
                await _call(hook)
            self._consumers = [handlers.consumer(self._namesrv) for handlers in self._groups.values()]
            for consumer in self._consumers:
                await consumer.start()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop all consumers, side by side, then run the stop hooks. Raises the first error of them, at the end."""
        consumers, self._consumers = self._consumers, []
        outcomes = await asyncio.gather(*[one.stop() for one in consumers], return_exceptions=True)
        errors = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        hooks, self._stop_hooks = self._stop_hooks, []
        for hook in reversed(hooks):
            try:
                await _call(hook)
            except Exception as error:
                log.exception("a stop hook failed")
                errors.append(error)
        if errors:
            raise errors[0]

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()


async def _wait(event: asyncio.Event) -> None:
    await event.wait()


async def _call(hook: Callable[[], Awaitable[object] | object]) -> None:
    result = hook()
    if inspect.isawaitable(result):
        await result


def _catch(loop: asyncio.AbstractEventLoop, number: signal.Signals, then: Callable[[], None]) -> bool:
    """Have ``then`` called at a signal; return False where the system or the thread has no signals."""
    try:
        loop.add_signal_handler(number, then)
    except (NotImplementedError, RuntimeError, ValueError):
        log.debug("%s does not stop the app here: only the main thread of a POSIX system gets it", number.name)
        return False
    return True
