"""RuntimeSettings: a running server's settings, for the requests of operators that read and change them.

A change may be kept for the next start. Then it is saved first, and takes effect and is answered once it is saved. A
version counts the changes: a caller that names the version it has seen changes nothing after somebody else's change.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from pymq.config.base import ORIGIN_DEFAULT, Config, format_value
from pymq.errors import ConfigError, StoreError

log = logging.getLogger(__name__)

BODY_SIZE_BYTES_MAX = 64 * 1024
MEMBER = "settings"  # of the saved table: key -> text
Done = Callable[[StoreError | OSError | None], None]


class Keeper(Protocol):
    """Saves the kept settings; one save at a time."""

    is_busy: bool

    def load(self) -> dict[str, Any]: ...
    def save_soon(self, make: Callable[[], dict[str, Any]], saved: Done) -> None: ...


class BusyError(ConfigError):
    """Another change is being saved."""


class StaleError(ConfigError):
    """The settings were changed since the caller has seen them."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change that was checked. ``kept``: all kept settings after it; None when they stay as they are."""

    values: Mapping[str, str]
    forget: tuple[str, ...]
    is_kept: bool
    kept: dict[str, str] | None


class RuntimeSettings:
    """Reads and changes ``config``. ``keeper`` saves kept changes, if the server has a place for them.

    ``no_keeper_text`` says what to do for a server that has none. ``check`` raises ConfigError for values that the
    server refuses for other reasons than their form.
    """

    def __init__(
        self,
        config: Config,
        now_ms: Callable[[], int],
        keeper: Keeper | None = None,
        *,
        no_keeper_text: str = "this server has no file for it",
        check: Callable[[Mapping[str, str]], None] = lambda values: None,
    ) -> None:
        self.config = config
        self._now_ms = now_ms
        self._keeper = keeper
        self._no_keeper_text = no_keeper_text
        self._check = check
        self._kept: dict[str, str] = {}
        self._change_count = 0
        self._changed_ms = now_ms()

    def load(self) -> None:
        """Apply the kept settings, over those of the file and the command line.

        Raises StoreError for a damaged file, ConfigError for kept values that conflict with the others.
        """
        table = self._keeper.load().get(MEMBER, {}) if self._keeper is not None else {}
        usable = {}
        for key, value in table.items():
            row = self.config.settings().get(key)
            if row is None or not row.runtime:
                log.warning("the kept setting %s=%s has no effect: this version can't change that key", key, value)
            else:
                usable[key] = str(value)
        try:
            self.config.change_at_runtime(usable, is_kept=True)
        except ConfigError as error:
            raise ConfigError(
                f"settings that were kept at run time ({', '.join(usable)}) don't fit the others: {error}; change the "
                "others, or remove runtimeSettings.json and its backup"
            ) from error
        self._kept = usable
        for key, value in usable.items():
            log.info("%s=%s was set at run time and kept", key, value)

    @property
    def version(self) -> str:
        """RocketMQ's data version as JSON: its counter grows with each change."""
        fields = {"stateVersion": 0, "timestamp": self._changed_ms, "counter": self._change_count}
        return json.dumps(fields, separators=(",", ":"))

    def as_text(self) -> str:
        """Return all settings as ``key=value`` lines, with secrets masked."""
        return "".join(f"{name}={value}\n" for name, value in self.config.as_properties().items())

    def origins(self) -> str:
        """Return where values came from, as JSON: key -> origin. Keys with their default are left out."""
        found = {name: self.config.origin(name) for name in self.config.settings()}
        return json.dumps({name: origin for name, origin in found.items() if origin != ORIGIN_DEFAULT})

    def plan(self, body: bytes, *, forget: str = "", is_kept: bool = False, version: str = "") -> Change:
        """Return the change that a request's body asks for, checked and not made yet.

        ``forget``: keys separated by ``;`` whose changes at run time are taken back. ``version``: the one that the
        caller has seen. Raises ConfigError.
        """
        if self._keeper is not None and self._keeper.is_busy:
            raise BusyError("another change of settings is being saved: look at the settings, then try again")
        forgotten = tuple(dict.fromkeys(key.strip() for key in forget.split(";") if key.strip()))
        values = parse_changes(body, may_be_empty=bool(forgotten))
        if version and not self._is_newest(version):
            raise StaleError(
                "the settings were changed by another request since they were read: look at them, then try again"
            )
        self.config.with_runtime_changes(values, forget=forgotten)
        self._check({**values, **{key: format_value(self.config.started(key)) for key in forgotten}})
        if is_kept and self._keeper is None:
            raise ConfigError(f"a change can't be kept: {self._no_keeper_text}")
        kept = {key: value for key, value in self._kept.items() if key not in forgotten}
        if is_kept:
            kept.update(values)
        return Change(values, forgotten, is_kept, kept if kept != self._kept else None)

    def save(self, change: Change, done: Done) -> None:
        """Save the kept settings that the change leaves, then call ``done``."""
        kept = change.kept
        assert self._keeper is not None and kept is not None

        def saved(error: StoreError | OSError | None) -> None:
            if error is None:
                self._kept = kept
            done(error)

        self._keeper.save_soon(lambda: {MEMBER: kept}, saved)

    def apply(self, change: Change) -> dict[str, str]:
        """Make the change; return the new value of each key that it changed. Raises ConfigError."""
        changed = self.config.change_at_runtime(change.values, forget=change.forget, is_kept=change.is_kept)
        if changed or change.kept is not None:
            self._change_count += 1
            self._changed_ms = self._now_ms()
        return {name: text for name, text in self.config.as_properties().items() if name in changed}

    def _is_newest(self, version: str) -> bool:
        """Compare as values: a client may have parsed the version and written it in another form."""
        try:
            seen = json.loads(version)
        except ValueError:
            return False
        return bool(seen == json.loads(self.version))


def parse_changes(body: bytes, *, may_be_empty: bool = False) -> dict[str, str]:
    """Parse ``key=value`` lines. Raises ConfigError for text that could hide another line or key."""
    if len(body) > BODY_SIZE_BYTES_MAX:
        raise _bad(f"the text has {len(body)} bytes, the limit is {BODY_SIZE_BYTES_MAX}")
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise _bad(f"the text is not UTF-8: {error}") from error
    if "\\" in text or any(ord(character) < 32 and character != "\n" for character in text):
        raise _bad("CR, NUL, other control characters and backslash escapes are not allowed")
    result: dict[str, str] = {}
    for line in filter(None, (line.strip() for line in text.split("\n"))):
        name, separator, value = line.partition("=")
        if not separator or name.strip() in result:
            raise _bad(f"{line[:60]!r} is not a key=value line, or names a key twice")
        result[name.strip()] = value.strip()
    if not result and not may_be_empty:
        raise _bad("it names no key: write key=value lines")
    return result


def _bad(why: str) -> ConfigError:
    return ConfigError(f"the configuration was not changed: {why}")
