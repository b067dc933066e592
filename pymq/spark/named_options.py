"""Options of ``format("pymq")`` by their names in any case, and the forms of their values."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import TypeVar

from pymq.errors import UsageError

NAMESRV = "127.0.0.1:9876"
_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")
_Value = TypeVar("_Value")
_Word = TypeVar("_Word", bound=str)


class NamedOptions:
    """Options as given. Every method raises UsageError for an illegal value."""

    def __init__(
        self,
        given: Mapping[str, str],
        shown: Mapping[str, str],
        names: Mapping[str, str],
        equivalent: Callable[[str], str | None],
    ) -> None:
        """``shown``, ``names``: by a name in lower case, how it is written, and the option that it stands for.

        ``equivalent(name)`` says what to write instead of an option of another source or sink.

        Raises UsageError for an unknown option, or for one that is given twice under two names.
        """
        self._values: dict[str, str] = {}
        for name, value in given.items():
            known = names.get(name.lower())
            if known is None:
                raise UsageError(_unknown(name, shown, equivalent(name.lower())))
            if self._values.get(known, value) != value:
                raise UsageError(f"option {known} is given twice, as {self._values[known]!r} and {value!r}: give one")
            self._values[known] = value

    def text(self, name: str, default: str = "") -> str:
        """Return an option's value as given."""
        return self._values.get(name, default)

    @property
    def namesrv(self) -> str:
        return self.text("namesrv", NAMESRV)

    @property
    def credentials(self) -> str:
        """A reference to what requests are signed with. Raises UsageError for another text."""
        reference = self.text("credentials")
        if reference:
            from pymq.security.credentials import check_reference

            check_reference(reference)
        return reference

    def number(self, name: str, default: int) -> int:
        """Return a whole number of at least 1."""
        text = self._values.get(name)
        if text is None:
            return default
        if not re.fullmatch("[0-9]{1,18}", text) or int(text) < 1:
            raise UsageError(f"option {name} is {text!r}: write a whole number of at least 1")
        return int(text)

    def _choice(self, name: str, known: tuple[_Word, ...], default: _Word) -> _Word:
        text = self.text(name, default)
        for word in known:
            if word == text:
                return word
        raise UsageError(f"option {name} is {text!r}: use one of {', '.join(known)}")

    def _flag(self, name: str) -> bool:
        text = self.text(name, "false").strip().lower()
        if text not in _TRUE + _FALSE:
            raise UsageError(f"option {name} is {self.text(name)!r}: write true or false")
        return text in _TRUE

    def _parsed(self, name: str, default: _Value, parse: Callable[[str], _Value], form: str) -> _Value:
        text = self._values.get(name)
        if text is None:
            return default
        try:
            value = parse(text)
        except ValueError:
            raise UsageError(f"option {name} is {text!r}: write {form}") from None
        if isinstance(value, float) and not (0 <= value < math.inf):
            raise UsageError(f"option {name} is {text!r}: write {form}")
        return value


def _unknown(name: str, shown: Mapping[str, str], equivalent: str | None) -> str:
    if equivalent is not None:
        return f"option {name} is not known to format pymq: {equivalent}"
    close = get_close_matches(name.lower(), shown, n=1)
    hint = f"did you mean {shown[close[0]]}?" if close else "pymq docs spark lists the options"
    return f"option {name} is not known to format pymq: {hint}"
