"""Regular expressions with RE2, whose time grows linearly with the text for every pattern."""

from __future__ import annotations

import re
from collections.abc import Sequence

import re2

from pymq.errors import ExpressionError
from pymq.filter.fields import BODY, FIELD_PATTERN, field
from pymq.filter.messages import FilterMessage
from pymq.filter.plugins import CompiledFilter, EachMessage, FilterPlugin, hookimpl

PATTERN_LENGTH_MAX = 4096
PROGRAM_MAX_BYTES = 4 * 1024 * 1024  # limit of a compiled pattern with RE2's caches for searching

_FORM = re.compile(rf"(?P<field>{FIELD_PATTERN}) ~ (?P<pattern>.*)", re.DOTALL)


class RegexFilter:
    """The filter ``PATTERN`` on the body, or ``FIELD ~ PATTERN`` on another field; a match anywhere counts."""

    name = "regex"
    doc = "A regular expression (RE2) found in the body, or in a field: 'total.: 9[0-9]', 'tag ~ ^pa(id|yed)$'."

    def compile(self, expression: str) -> CompiledFilter:
        form = _FORM.fullmatch(expression)
        name, pattern = (form["field"], form["pattern"]) if form else (BODY, expression)
        column = form.start("pattern") + 1 if form else 1
        search = _compiled(pattern, column).search
        get = field(name)

        def found(message: FilterMessage) -> bool | None:
            value = get(message)
            return None if value is None else search(value) is not None

        return EachMessage(found)


def _compiled(pattern: str, column: int) -> re2._Regexp:
    if len(pattern) > PATTERN_LENGTH_MAX:
        raise ExpressionError(
            column, f"the pattern has {len(pattern)} characters, the limit is {PATTERN_LENGTH_MAX}: shorten it"
        )
    options = re2.Options()
    options.max_mem = PROGRAM_MAX_BYTES
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except UnicodeEncodeError as error:
        raise ExpressionError(column + error.start, "half a surrogate pair is not a character") from error
    except re2.error as error:
        reason = error.args[0] if error.args else error
        text = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        raise ExpressionError(column, f"{text} (RE2 has no look-around and no back references)") from error


@hookimpl
def pymq_filters() -> Sequence[FilterPlugin]:
    return [RegexFilter()]
