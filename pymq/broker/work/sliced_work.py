"""SlicedWork: runs long work on the event loop in slices of a few milliseconds, between which clients are served.

Work is a generator. It yields where it may rest, and returns its result. What it reads may change between two slices.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Generator
from typing import Generic, TypeVar

from pymq.errors import PymqError, Refusal
from pymq.wire.codes import ResponseCode
from pymq.wire.command import Command
from pymq.wire.dispatch import Peer, error_reply
from pymq.wire.reply import Reply

log = logging.getLogger(__name__)

T = TypeVar("T")
# Yields where it may rest, returns its result.
Steps = Generator[None, None, T]
# Runs a function on the loop after so many seconds.
CallLater = Callable[[float, Callable[[], None]], object]

SLICE_S = 0.001
# While requests are served, a rest takes as long as the slice before it: work takes at most half of the loop's time.
REST_FACTOR = 1.0
WAITING_COUNT_MAX = 64


class _Work(Generic[T]):
    __slots__ = ("failed", "finished", "is_wanted", "steps")

    def __init__(
        self,
        steps: Steps[T],
        finished: Callable[[T], None],
        failed: Callable[[Exception], None],
        is_wanted: Callable[[], bool],
    ) -> None:
        self.steps = steps
        self.finished = finished
        self.failed = failed
        self.is_wanted = is_wanted


class SlicedWork:
    """Gives all unfinished work a slice in turn. Belongs to the event loop's thread."""

    def __init__(
        self,
        call_later: CallLater,
        *,
        now_s: Callable[[], float],
        served_count: Callable[[], int],
        after_each: Callable[[], None] = lambda: None,
        watch: Callable[[Callable[[], None]], None] = lambda run: run(),
    ) -> None:
        """``served_count``: how many requests the loop has served: one that serves none takes slice after slice.

        ``after_each`` runs after every slice that was not part of a turn; ``watch`` runs a slice and judges it.
        """
        self._call_later = call_later
        self._now_s = now_s
        self._served_count = served_count
        self._after_each = after_each
        self._watch = watch
        self._waiting: deque[_Work[object]] = deque()
        self._rest_until_s = float("-inf")
        self._served_before = 0
        self.slice_count = 0

    @property
    def waiting_count(self) -> int:
        """The number of unfinished pieces of work."""
        return len(self._waiting)

    def answer(self, request: Command, peer: Peer, steps: Steps[Reply]) -> Reply | None:
        """Return the answer that ``steps`` make, or None when it comes later because more than one slice is needed.

        Work for a connection that ends is dropped. Raises Refusal(SYSTEM_BUSY) when too much work waits, and what
        the first slice raises.
        """
        ready: list[Reply] = []
        envelope = request.envelope()
        is_late = False

        def finished(reply: Reply) -> None:
            if is_late:
                peer.answer(envelope, reply)
            else:
                ready.append(reply)

        def failed(error: Exception) -> None:
            if not is_late:
                raise error
            if isinstance(error, PymqError):
                peer.answer(envelope, error_reply(error))
            else:
                log.error("the request %d from %s failed", request.code, peer.address, exc_info=error)
                text = f"the request failed inside the broker: {type(error).__name__}: {error}"
                peer.answer(envelope, Reply(ResponseCode.SYSTEM_ERROR, text))

        self.run(steps, finished, failed, lambda: not peer.closed)
        is_late = not ready
        return ready[0] if ready else None

    def run(
        self,
        steps: Steps[T],
        finished: Callable[[T], None],
        failed: Callable[[Exception], None],
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> None:
        """Run ``steps``, the first slice at once unless other work waits or rests. ``finished`` gets their result.

        Work that ``is_wanted`` says is not wanted any more is dropped. Raises Refusal(SYSTEM_BUSY) when too much work
        waits.
        """
        if len(self._waiting) >= WAITING_COUNT_MAX:
            steps.close()
            raise Refusal(
                ResponseCode.SYSTEM_BUSY,
                f"{WAITING_COUNT_MAX} large answers are being made already: ask again in a moment",
            )
        work: _Work[object] = _Work(steps, finished, failed, is_wanted)  # type: ignore[arg-type]
        is_first = not self._waiting
        if is_first and self._now_s() >= self._rest_until_s and self._run_slice(work):
            return
        self._waiting.append(work)
        if is_first:
            self._schedule()

    def _schedule(self) -> None:
        """Run the next slice in the loop's next turn, after the requests that came meanwhile."""
        self._served_before = self._served_count()
        self._call_later(0.0, self._run_next)

    def _run_next(self) -> None:
        rest_s = self._rest_until_s - self._now_s()
        if rest_s > 0 and self._served_count() != self._served_before:
            self._call_later(rest_s, self._run_next)
            return
        work = self._waiting.popleft()

        def run() -> None:
            if not work.is_wanted():
                work.steps.close()
            elif not self._run_slice(work):
                self._waiting.append(work)

        try:
            self._watch(run)
            self._after_each()
        finally:
            if self._waiting:
                self._schedule()

    def _run_slice(self, work: _Work[object]) -> bool:
        """Run one slice; return True when the work is done."""
        self.slice_count += 1
        begun_s = self._now_s()
        end_s = begun_s + SLICE_S
        try:
            while True:
                next(work.steps)
                if self._now_s() >= end_s:
                    return False
        except StopIteration as stop:
            work.finished(stop.value)
        except Exception as error:
            work.failed(error)
        finally:
            now_s = self._now_s()
            self._rest_until_s = now_s + (now_s - begun_s) * REST_FACTOR
        return True


def inline_work() -> SlicedWork:
    """Return a :class:`SlicedWork` that finishes everything at once."""
    return SlicedWork(lambda delay_s, run: run(), now_s=lambda: 0.0, served_count=lambda: 0)
