"""CEL, Google's Common Expression Language, on JSON bodies and properties; a Rust library runs it."""

from __future__ import annotations

import re
from collections.abc import Sequence

import cel

from pymq.errors import ExpressionError, FilterError
from pymq.filter.json_body import json_body, node_count_max
from pymq.filter.messages import FilterMessage
from pymq.filter.plugins import CompiledFilter, EachMessage, FilterPlugin, hookimpl

EXPRESSION_LENGTH_MAX = 4096
MACROS_MAX = 3
PLUSES_MAX = 64  # each may double a text or a list
STEPS_MAX = 100_000  # limit of conditions that loops may evaluate for one message
STEPS_OF_A_PATTERN = 1_000  # cost of matches() in each of them, because it compiles its pattern

_BODY = re.compile(r"\bbody\b")
_LOOP = re.compile(r"\.\s*(all|exists|exists_one|existsOne|filter)\s*\(")
_BUILDER = re.compile(r"\.\s*(map|transformList|transformMap|transformMapEntry)\s*\(")


class CelFilter:
    """The filter ``body.total > 100 && props.country == "DE"``, with variables body, props, topic, tags and keys."""

    name = "cel"
    doc = "CEL on body (JSON), props, tags, keys, topic: 'body.total > 100 && props.country == \"DE\"'."

    def compile(self, expression: str) -> CompiledFilter:
        loops = _checked_loops(expression)
        pluses = expression.count("+")
        step_cost = STEPS_OF_A_PATTERN if "matches" in expression else 1
        try:
            program = cel.compile(expression)
        except BaseException as error:
            raise ExpressionError(_column(error), _reason(error)) from error
        wants_body = _BODY.search(expression) is not None
        own_values = expression.count(",") + expression.count("[") + expression.count("{")

        def evaluate(message: FilterMessage) -> bool | None:
            properties = message.properties
            if loops:
                values = own_values + len(properties) + (node_count_max(message.body) if wants_body else 0)
                _check_steps((values * (pluses + 1)) ** loops * step_cost)
            variables = {
                "props": dict(properties),
                "topic": message.topic,
                "tags": message.tags,
                "keys": message.keys,
                "body": json_body(message) if wants_body else None,
            }
            try:
                answer = program.execute(variables)
            except KeyError:
                return None
            except BaseException as error:
                raise FilterError(_reason(error)) from error
            if answer is None or isinstance(answer, bool):
                return answer
            raise FilterError(f"the expression returns {type(answer).__name__}, not true or false: add a comparison")

        return EachMessage(evaluate)


def _checked_loops(expression: str) -> int:
    """Returns the number of loops. Raises ExpressionError for an expression that could take too much time or memory."""
    if len(expression) > EXPRESSION_LENGTH_MAX:
        raise ExpressionError(
            EXPRESSION_LENGTH_MAX + 1, f"{len(expression)} characters, the limit is {EXPRESSION_LENGTH_MAX}"
        )
    if builder := _BUILDER.search(expression):
        raise ExpressionError(
            builder.start(1) + 1, f"{builder[1]} builds lists without a bound: use exists, all or filter"
        )
    if expression.count("+") > PLUSES_MAX:
        raise ExpressionError(1, f"{expression.count('+')} times +, the limit is {PLUSES_MAX}")
    loops = list(_LOOP.finditer(expression))
    if len(loops) > MACROS_MAX:
        raise ExpressionError(
            loops[MACROS_MAX].start(1) + 1, f"{len(loops)} times all, exists or filter, the limit is {MACROS_MAX}"
        )
    return len(loops)


def _check_steps(steps: int) -> None:
    if steps > STEPS_MAX:
        raise FilterError(
            f"its loops could take {steps} steps on this message, the limit is {STEPS_MAX}: use fewer all, exists, "
            "filter or matches"
        )


def _reason(error: BaseException) -> str:
    """Returns the library's text on one line; raises KeyboardInterrupt, SystemExit and GeneratorExit again.

    A panic of the Rust library is a BaseException too, but must not end the process.
    """
    if isinstance(error, (KeyboardInterrupt, SystemExit, GeneratorExit)):
        raise error
    if isinstance(error, (TypeError, RuntimeError, ValueError, ArithmeticError)) and str(error):
        lines = " ".join(str(error).split())
        return lines if len(lines) <= 300 else f"{lines[:297]}..."
    return f"{type(error).__name__}: {error}"


def _column(error: BaseException) -> int:
    place = re.search(r"<input>:1:([0-9]+)", str(error))
    return int(place[1]) if place else 1


@hookimpl
def pymq_filters() -> Sequence[FilterPlugin]:
    return [CelFilter()]
