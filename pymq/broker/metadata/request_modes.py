"""RequestModes: whether a group pulls or pops a topic, as operators set it; saved in ``messageRequestMode.json``."""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Any

import msgspec

from pymq.broker.metadata.saved_state import SavedState, raise_failure
from pymq.broker.metadata.saved_table import SavedTable
from pymq.broker.metadata.table_saver import Saved, TableSaver
from pymq.clock import Clock
from pymq.errors import Refusal
from pymq.model.tables import DataVersion
from pymq.wire.bodies_pop import RequestMode
from pymq.wire.codes import ResponseCode

log = logging.getLogger(__name__)

MODES_MAX = 10_000
MEMBER = "messageRequestModeMap"

_Modes = dict[tuple[str, str], RequestMode]  # by topic and group


class RequestModes(SavedTable[_Modes]):
    """The modes of all groups. A change takes effect, and is answered, once it is saved.

    RocketMQ's file has no version.
    """

    def __init__(self, table: TableSaver, *, clock: Clock) -> None:
        current: _Modes = {}
        super().__init__(SavedState(current, table, clock=clock, copy=dict, to_table=_to_table))
        self._modes = current

    def load(self) -> None:
        """Read the file."""
        self._modes.update(_read(self._state.load()))

    def get(self, topic: str, group: str) -> RequestMode | None:
        """Return the mode that was set; None when none was."""
        return self._modes.get((topic, group))

    def put(self, mode: RequestMode, done: Saved = raise_failure) -> None:
        """Set a mode. ``done`` gets None once it is saved, or the error. Raises Refusal(NO_PERMISSION) at the limit."""
        key = mode.topic, mode.consumer_group
        planned = self._state.planned()
        if key not in planned and len(planned) >= MODES_MAX:
            raise Refusal(
                ResponseCode.NO_PERMISSION,
                f"this broker keeps the modes of {MODES_MAX} groups of topics, its limit: delete topics or groups that "
                "are not in use",
            )
        self._state.change(lambda modes: modes.__setitem__(key, mode), done)

    def forget(self, *, topics: Collection[str] = (), groups: Collection[str] = ()) -> None:
        """Drop the modes of topics or groups that are gone."""
        gone = [key for key in self._modes if key[0] in topics or key[1] in groups]
        if gone:
            self._state.change_at_once(lambda modes: [modes.pop(key, None) for key in gone])

    def take_over(self, table: dict[str, Any]) -> None:
        """Take a master's table in place of this one."""

        def replace(modes: _Modes) -> None:
            modes.clear()
            modes.update(taken)

        taken = _read(table)
        self._state.take_over(replace, DataVersion())


def _to_table(modes: _Modes, version: DataVersion) -> dict[str, Any]:
    table: dict[str, dict[str, Any]] = {}
    for (topic, group), mode in modes.items():
        table.setdefault(topic, {})[group] = msgspec.to_builtins(mode)
    return {MEMBER: table}


def _read(table: dict[str, Any]) -> _Modes:
    """Return the usable entries of a saved object; others are logged."""
    modes: _Modes = {}
    for topic, groups in (table.get(MEMBER) or {}).items():
        for group, entry in (groups or {}).items():
            try:
                # RocketMQ's entries name topic and group again; the keys are what counts.
                modes[topic, group] = msgspec.convert(
                    {**entry, "topic": topic, "consumerGroup": group}, RequestMode, strict=False
                )
            except (msgspec.ValidationError, TypeError) as error:
                log.warning("an entry of messageRequestMode.json was left out: %s, %s: %s", topic, group, error)
    return modes
