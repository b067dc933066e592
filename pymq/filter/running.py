"""Runs a filter for one subscription: limits on expression, time and memory, the error policy, statistics."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from pymq.clock import Clock
from pymq.errors import ExpressionError, FilterError, FilterStopError, UsageError
from pymq.filter.messages import BodyBudget, FilterMessage
from pymq.filter.plugins import FilterPlugin, Outcome

log = logging.getLogger(__name__)

EXPRESSION_LENGTH_MAX = 32_768
COMPILE_TIME_MAX_MS = 10_000  # long enough to import a parser on a busy machine
BATCH_TIME_MAX_MS = 5_000
BATCH_BODIES_MAX_BYTES = 64 * 1024 * 1024
SLICE_COUNT = 32  # messages between two checks of the time

M = TypeVar("M")


class OnError(StrEnum):
    """What happens to a message on which its filter fails: it is left out, delivered, or the consumer stops before
    it."""

    SKIP = "skip"
    DELIVER = "deliver"
    STOP = "stop"


def parse_on_error(text: str) -> OnError:
    """Return the policy of this name. Raises UsageError."""
    try:
        return OnError(text)
    except ValueError:
        raise UsageError(f"on_error is {text!r}: use one of {', '.join(OnError)}") from None


@dataclass(slots=True)
class FilterStats:
    """The work of a filter since its subscription began: messages by outcome, batches, and time in ms."""

    matched: int = 0
    skipped: int = 0
    errors: int = 0
    batches: int = 0
    time_ms: int = 0


class RunningFilter:
    """One compiled expression with its limits and counts. A filter's state lives as long as this object."""

    def __init__(
        self, plugin: FilterPlugin, expression: str, *, clock: Clock, on_error: OnError = OnError.SKIP
    ) -> None:
        """Raise ExpressionError for an expression that is wrong, too long, or too slow to compile."""
        self.name = plugin.name
        self.expression = expression
        self.on_error = on_error
        self.stats = FilterStats()
        self._clock = clock
        self._failed = False
        if len(expression) > EXPRESSION_LENGTH_MAX:
            raise ExpressionError(
                EXPRESSION_LENGTH_MAX + 1,
                f"the expression has {len(expression)} characters, the limit is {EXPRESSION_LENGTH_MAX}: shorten it",
            )
        begun_ms = clock.monotonic_ms()
        self._compiled = plugin.compile(expression)
        spent_ms = clock.monotonic_ms() - begun_ms
        if spent_ms > COMPILE_TIME_MAX_MS:
            raise ExpressionError(
                1, f"{self.name} took {spent_ms} ms to compile it, the limit is {COMPILE_TIME_MAX_MS}: simplify it"
            )

    def match(self, batch: Sequence[FilterMessage]) -> list[Outcome]:
        """Return one outcome per message. When a batch runs out of time, its remaining messages become errors.

        A running filter can't be interrupted, so the time is checked every few messages.
        """
        clock, stats = self._clock, self.stats
        budget = BodyBudget(BATCH_BODIES_MAX_BYTES)
        begun_ms = clock.monotonic_ms()
        outcomes: list[Outcome] = []
        for start in range(0, len(batch), SLICE_COUNT):
            part = batch[start : start + SLICE_COUNT]
            spent_ms = clock.monotonic_ms() - begun_ms
            if spent_ms > BATCH_TIME_MAX_MS:
                outcomes += [self._out_of_time(spent_ms)] * (len(batch) - start)
                break
            outcomes += self._match_part(part, budget)
        stats.batches += 1
        stats.time_ms += clock.monotonic_ms() - begun_ms
        self._count(outcomes)
        return outcomes

    def keep(self, messages: Sequence[M], batch: Sequence[FilterMessage]) -> tuple[list[M], int]:
        """Return the messages to deliver, by the error policy, and how many of ``messages`` are handled.

        ``batch`` holds the same messages as the filter sees them. With the policy to stop, only the messages before the
        first failed one are handled; raises FilterStopError when the first message is the failed one.
        """
        kept = []
        for index, (message, seen, outcome) in enumerate(zip(messages, batch, self.match(batch), strict=True)):
            if outcome is True:
                kept.append(message)
            elif isinstance(outcome, FilterError):
                if self.on_error is OnError.STOP:
                    if index:
                        return kept, index
                    raise self._stopped(outcome, seen) from outcome
                self._note(outcome, seen)
                if self.on_error is OnError.DELIVER:
                    kept.append(message)
        return kept, len(messages)

    def _match_part(self, part: Sequence[FilterMessage], budget: BodyBudget) -> list[Outcome]:
        for message in part:
            message.budget = budget
        try:
            outcomes = self._compiled.match(part)
        except Exception as error:  # plugins are foreign code: no exception of theirs may stop the queue
            if len(part) > 1:  # one message caused it; the others get their own outcomes
                return [outcome for message in part for outcome in self._match_part([message], budget)]
            return [FilterError(f"filter {self.name} failed: {_described(error)}")]
        if len(outcomes) != len(part):
            text = f"filter {self.name} gave {len(outcomes)} outcomes for {len(part)} messages"
            return [FilterError(text)] * len(part)
        return outcomes

    def _out_of_time(self, spent_ms: int) -> FilterError:
        return FilterError(
            f"filter {self.name} took {spent_ms} ms for one batch, the limit is {BATCH_TIME_MAX_MS}: simplify the "
            "expression or pull fewer messages at a time"
        )

    def _count(self, outcomes: list[Outcome]) -> None:
        matched = sum(outcome is True for outcome in outcomes)
        errors = sum(isinstance(outcome, FilterError) for outcome in outcomes)
        self.stats.matched += matched
        self.stats.errors += errors
        self.stats.skipped += len(outcomes) - matched - errors

    def _note(self, error: FilterError, message: FilterMessage) -> None:
        if not self._failed:
            self._failed = True
            done = "delivered" if self.on_error is OnError.DELIVER else "left out"
            log.warning(
                "filter %s can't judge %s: %s; it is %s, so are further ones", self.name, _place(message), error, done
            )

    def _stopped(self, error: FilterError, message: FilterMessage) -> FilterStopError:
        return FilterStopError(
            f"filter {self.name} can't judge {_place(message)}: {error}; on_error is stop: nothing from this message "
            "on was taken. Mend the expression, or use skip or deliver"
        )


def _place(message: FilterMessage) -> str:
    return f"{message.topic} {message.broker_name}/{message.queue_id}@{message.queue_offset}"


def _described(error: Exception) -> str:
    return str(error) if isinstance(error, FilterError) else f"{type(error).__name__}: {error}"
