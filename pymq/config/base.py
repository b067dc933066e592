"""Settings: typed, ranged, documented attributes with RocketMQ's names and the origin of each value."""

from __future__ import annotations

import copy
import dataclasses
import difflib
import functools
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self, TypeVar

from pymq.errors import ConfigError, UsageError
from pymq.units import parse_size_bytes

ORIGIN_DEFAULT = "default"
ORIGIN_ENV = "env"
ORIGIN_FILE = "file"
ORIGIN_FLAG = "flag"
ORIGIN_RUNTIME = "runtime"
ORIGIN_KEPT = "kept"  # a change at run time that survives a restart
VALUE_LENGTH_MAX = 4096
MASK = "******"

Value = str | int | bool
V = TypeVar("V", str, int, bool)
_TRUE = frozenset({"true", "yes", "on", "1"})
_FALSE = frozenset({"false", "no", "off", "0"})
_METADATA_KEY = "setting"
# Keys that RocketMQ changes at run time for nobody, among them its configBlackList.
_NEVER_AT_RUNTIME = re.compile(r"[pP]ath|configBlackList|rocketmqHome")


@dataclass(frozen=True, slots=True)
class Setting:
    """One key.

    ``minimum`` and ``maximum`` bound integers; ``choices`` and ``form`` (a regular expression and its meaning) bound
    text. ``runtime`` allows operators to change it while the server runs.
    """

    name: str
    doc: str
    default: Value
    attribute: str = ""
    minimum: int | None = None
    maximum: int | None = None
    choices: tuple[str, ...] = ()
    form: tuple[str, str] | None = None
    runtime: bool = False
    is_size: bool = False
    is_secret: bool = False

    @property
    def kind(self) -> str:
        """``int``, ``bool``, ``size`` or ``text``, for messages and documentation."""
        if isinstance(self.default, bool):
            return "bool"
        if isinstance(self.default, int):
            return "size" if self.is_size else "int"
        return "text"

    def parse(self, text: str) -> Value:
        """Return the typed value of ``text``. Raises ConfigError naming the key, the value and what is allowed."""
        if any(ord(character) < 32 or ord(character) == 127 for character in text):
            raise ConfigError(f"{self.name}: control characters (newline, CR, NUL …) are not allowed in a value")
        text = text.strip()
        if len(text) > VALUE_LENGTH_MAX:
            raise ConfigError(f"{self.name}: the value has {len(text)} characters, the limit is {VALUE_LENGTH_MAX}")
        if isinstance(self.default, bool):
            return self._parse_bool(text)
        if isinstance(self.default, int):
            return self._parse_int(text)
        if self.choices and text not in self.choices:
            raise ConfigError(f"{self.name}={text[:60]}: use one of {', '.join(self.choices)}")
        if self.form is not None and not re.fullmatch(self.form[0], text):
            raise ConfigError(f"{self.name}={text[:60]}: write {self.form[1]}")
        return text

    def _parse_bool(self, text: str) -> bool:
        lowered = text.lower()
        if lowered not in _TRUE | _FALSE:
            raise ConfigError(f"{self.name}={text[:60]}: write true or false")
        return lowered in _TRUE

    def _parse_int(self, text: str) -> int:
        try:
            value = parse_size_bytes(text) if self.is_size and not text.lstrip("-").isdigit() else int(text[:20])
        except (ValueError, UsageError):
            raise ConfigError(f"{self.name}={text[:60]}: write a whole number{self.range_text()}") from None
        if (self.minimum is not None and value < self.minimum) or (self.maximum is not None and value > self.maximum):
            raise ConfigError(f"{self.name}={value} is out of range: write a whole number{self.range_text()}")
        return value

    def range_text(self) -> str:
        """Return the bounds as `` from 1 to 9``, or nothing."""
        low = "" if self.minimum is None else f" from {self.minimum}"
        return low + ("" if self.maximum is None else f" to {self.maximum}")


def setting(
    name: str,
    default: V,
    doc: str,
    *,
    minimum: int | None = None,
    maximum: int | None = None,
    choices: tuple[str, ...] = (),
    form: tuple[str, str] | None = None,
    runtime: bool = False,
    is_size: bool = False,
    is_secret: bool = False,
) -> V:
    """Return a dataclass field of a :class:`Config`: its RocketMQ name, default and limits on one row."""
    row = Setting(name, doc, default, "", minimum, maximum, choices, form, runtime, is_size, is_secret)
    return field(default=default, metadata={_METADATA_KEY: row})


def format_value(value: Value) -> str:
    """Return a value in the form RocketMQ writes into properties: ``true``, ``10911``, text unchanged."""
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass
class Config:
    """The base of all configurations: attributes in Python's style, also addressable by RocketMQ's key names.

    ``warnings`` holds one sentence for each key that was accepted but has no effect; ``unknown`` keeps those keys.
    """

    # Keys that RocketMQ has and PyMQ does not use -> why.
    IGNORED: ClassVar[Mapping[str, str]] = {}
    # Keys that can't change at run time -> why, where that is not just that the start reads them.
    FIXED: ClassVar[Mapping[str, str]] = {}

    def __post_init__(self) -> None:
        self.warnings: list[str] = []
        self.unknown: dict[str, str] = {}
        self._origins: dict[str, str] = {}
        # Key -> its value and origin without any change at run time.
        self._started: dict[str, tuple[Value, str]] = {}
        self._listeners: list[Callable[[frozenset[str]], None]] = []

    @classmethod
    @functools.cache
    def settings(cls) -> Mapping[str, Setting]:
        """Return all keys by RocketMQ name, in the order of the table, those of a base class last."""
        rows = [(one.name, one.metadata[_METADATA_KEY]) for one in dataclasses.fields(cls) if one.metadata]
        rows.sort(key=lambda row: row[0] not in cls.__annotations__)
        return {row.name: dataclasses.replace(row, attribute=attribute) for attribute, row in rows}

    def get(self, name: str) -> Value:
        """Return the value of a key by its RocketMQ name. Raises ConfigError for an unknown key."""
        value: Value = getattr(self, self._setting(name).attribute)
        return value

    def origin(self, name: str) -> str:
        """Return where a key's value came from: default, env, file, flag, runtime or kept."""
        return self._origins.get(name, ORIGIN_DEFAULT)

    def started(self, name: str) -> Value:
        """Return the value that a key has without changes at run time. Raises ConfigError for an unknown key."""
        return self._started[name][0] if name in self._started else self.get(name)

    @classmethod
    def names_at_runtime(cls) -> list[str]:
        """Return the keys that may change while the server runs."""
        return [name for name, row in cls.settings().items() if row.runtime]

    def set(self, name: str, text: str, origin: str) -> None:
        """Parse and set one key. Raises ConfigError for an unknown key (with near matches) or a bad value."""
        row = self._setting(name)
        setattr(self, row.attribute, row.parse(text))
        self._origins[name] = origin

    def accept(self, values: Mapping[str, str], origin: str) -> None:
        """Set the keys of a file. Keys that PyMQ does not use are kept and noted, never fatal. Raises ConfigError."""
        known = self.settings()
        for name, text in values.items():
            if name in known:
                self.set(name, text, origin)
            else:
                self.unknown[name] = text
                self.warnings.append(f"{name}: {self.problem_of_key(name)}; it has no effect")

    def change_at_runtime(
        self, values: Mapping[str, str], *, forget: Collection[str] = (), is_kept: bool = False
    ) -> list[str]:
        """Change keys of the allow-list, all or none, and return the names whose value changed.

        Keys of ``forget`` get back the value that they had without changes at run time. ``is_kept``: the caller has
        saved ``values`` for the next start. Keys of RocketMQ without effect have none here either. Raises ConfigError,
        also for values that conflict with each other.
        """
        known = self.settings()
        parsed: dict[str, Value] = {}
        for name, text in values.items():
            if name in self.IGNORED and name not in known and not _NEVER_AT_RUNTIME.search(name):
                continue  # as in a file: RocketMQ's tools set them on all brokers alike
            row = self._changeable(name)
            if "\\u" in text:
                raise ConfigError(f"{name}: escapes such as \\u are not allowed in a value")
            parsed[name] = row.parse(text)
        for name in forget:
            self._changeable(name)
            if name in values:
                raise ConfigError(f"{name} is both set and taken back: do one of them")
            parsed[name] = self.started(name)
        changed = [name for name, value in parsed.items() if self.get(name) != value]
        before = {name: self.get(name) for name in changed}
        for name in changed:
            setattr(self, known[name].attribute, parsed[name])
        try:
            self.check()
        except ConfigError:
            for name, value in before.items():
                setattr(self, known[name].attribute, value)
            raise
        for name in values if is_kept else [name for name in changed if name in values]:
            self._started.setdefault(name, (before.get(name, self.get(name)), self.origin(name)))
            self._origins[name] = ORIGIN_KEPT if is_kept else ORIGIN_RUNTIME
        for name in forget:
            if name in self._started:
                self._origins[name] = self._started.pop(name)[1]
        if changed:
            for listener in self._listeners:
                listener(frozenset(changed))
        return changed

    def with_runtime_changes(self, values: Mapping[str, str], *, forget: Collection[str] = ()) -> Self:
        """Return a copy after :meth:`change_at_runtime`, which raises ConfigError. No listener hears of it."""
        changed = copy.copy(self)
        changed._listeners, changed._origins, changed._started = [], dict(self._origins), dict(self._started)
        changed.change_at_runtime(values, forget=forget)
        return changed

    def check(self) -> None:
        """Raise ConfigError for values of several keys that conflict."""

    def add_listener(self, listener: Callable[[frozenset[str]], None]) -> None:
        """Call ``listener`` with the names of the keys that each change at run time touched."""
        self._listeners.append(listener)

    def as_properties(self) -> dict[str, str]:
        """Return key -> text of every setting, as configuration requests answer it, with secrets masked."""
        result = {}
        for name, row in self.settings().items():
            value = getattr(self, row.attribute)
            result[name] = MASK if row.is_secret and value else format_value(value)
        return result

    @classmethod
    def reason_fixed(cls, name: str) -> str:
        """Return why a key can't change at run time, and what to do instead."""
        return f"{cls.FIXED.get(name, 'only the start reads it')}: set it in the file or the flags, and restart"

    def problem_of_key(self, name: str) -> str:
        """Return why a file's key has no effect, with the nearest known key; empty for a key that has one."""
        if name in self.settings():
            return ""
        return self.IGNORED.get(name) or self._guess(name)

    def _setting(self, name: str) -> Setting:
        known = self.settings()
        if name not in known:
            raise ConfigError(self._unknown_text(name))
        return known[name]

    def _guess(self, name: str) -> str:
        near = difflib.get_close_matches(name, self.settings(), n=1, cutoff=0.8)
        return "PyMQ does not know this key" + (f", did you mean {near[0]}?" if near else "")

    def _unknown_text(self, name: str) -> str:
        near = difflib.get_close_matches(name, self.settings(), n=3, cutoff=0.6)
        hint = f"did you mean {', '.join(near)}?" if near else "pymq docs configuration lists all keys"
        return f"unknown key {name[:60]!r}: {hint}"

    def _changeable(self, name: str) -> Setting:
        """Return the row of a key that may change at run time. Raises ConfigError with the reason why it may not."""
        row = self._setting(name)
        if not row.runtime:
            raise ConfigError(f"{name} can't be changed at run time, because {self.reason_fixed(name)}")
        return row


def add_derived(config: Config, name: str, value: Any) -> None:
    """Set a value that follows from others, unless the key was set."""
    if config.origin(name) == ORIGIN_DEFAULT:
        setattr(config, config.settings()[name].attribute, value)
