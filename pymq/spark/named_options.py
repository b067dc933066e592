"""Options of ``format("pymq")`` by their names in any case, and the forms of their values."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import NamedTuple, TypeVar

from pymq.errors import UsageError

NAMESRV = "127.0.0.1:9876"
_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")
_Value = TypeVar("_Value")
_Word = TypeVar("_Word", bound=str)


class Option(NamedTuple):
    """One option: its name, other names for it, and its purpose. Users have nothing to do with an internal one."""

    name: str
    synonyms: tuple[str, ...] = ()
    only_streams: bool = False
    only_batches: bool = False
    is_internal: bool = False


class OptionTable:
    """The options of a source or a sink. ``equivalents``: by others' options in lower case, what says the same here."""

    def __init__(self, options: Sequence[Option], equivalents: Mapping[str, str]) -> None:
        self.options = options
        self._equivalents = equivalents
        self._shown: dict[str, str] = {}
        self._meant: dict[str, str] = {}
        for option in options:
            for name in (option.name, *option.synonyms):
                self._shown[name.lower()] = name
                self._meant[name.lower()] = option.name

    def known_names(self) -> set[str]:
        """Return the names and synonyms of all options for users."""
        return {name for option in self.options if not option.is_internal for name in (option.name, *option.synonyms)}

    def meant(self, name: str) -> str:
        """Return the name of the option that a name in any case stands for. Raises UsageError for an unknown one."""
        lowered = name.lower()
        if lowered not in self._meant:
            raise UsageError(f"option {name} is not known to format pymq: {self._instead_of(lowered)}")
        return self._meant[lowered]

    def _instead_of(self, lowered: str) -> str:
        if lowered in self._equivalents:
            return self._equivalents[lowered]
        if lowered.startswith("kafka."):
            return "leave it out: PyMQ has no Kafka client"
        close = get_close_matches(lowered, self._shown, n=1)
        return f"did you mean {self._shown[close[0]]}?" if close else "pymq docs spark lists the options"


class NamedOptions:
    """Options as given. Every method raises UsageError for an illegal value."""

    def __init__(self, given: Mapping[str, str], table: OptionTable) -> None:
        """Raise UsageError for an option that the table lacks, or for one that is given twice under two names."""
        self._values: dict[str, str] = {}
        for name, value in given.items():
            known = table.meant(name)
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
