"""AuthManager: the users and policies of RocketMQ 5.x's form; saved in ``auth.json``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pymq.broker.metadata.saved_state import SavedState
from pymq.broker.metadata.saved_table import SavedTable
from pymq.broker.metadata.table_reading import read_version
from pymq.broker.metadata.table_saver import Saved, TableSaver
from pymq.clock import Clock
from pymq.config.security import AUTH_FILE_NAME
from pymq.errors import Refusal, StoreError, UsageError
from pymq.model.tables import DataVersion
from pymq.security.acl_file import check_server_name
from pymq.security.identities import User
from pymq.security.user_table import UserTable, as_json, from_json
from pymq.wire.codes import ResponseCode

Change = Callable[[UserTable], UserTable]


class _Holder:
    """What a save copies and a change replaces."""

    def __init__(self, table: UserTable) -> None:
        self.table = table

    def copy(self) -> _Holder:
        return _Holder(self.table)

    def as_table(self, version: DataVersion) -> dict[str, Any]:
        return {"dataVersion": version, **as_json(self.table)}

    def apply(self, change: Change) -> None:
        self.table = change(self.table)


class AuthManager(SavedTable[_Holder]):
    """All users and policies of a broker. A change takes effect, and is answered, once it is saved.

    The saved object has secrets.
    """

    def __init__(self, saver: TableSaver, *, clock: Clock, is_on: bool) -> None:
        """``is_on``: the broker checks its requests by this table. Otherwise the file is neither read nor written."""
        holder = _Holder(UserTable())
        super().__init__(SavedState(holder, saver, clock=clock, copy=_Holder.copy, to_table=_Holder.as_table))
        self.is_on = is_on
        self._holder = holder
        self._listeners: list[Callable[[], None]] = []
        self.server_user: User | None = None  # signs for servers; it is not one of the table

    def load(self) -> None:
        """Read ``auth.json``. Raises StoreError for a file of which a part can't be used."""
        try:
            self._holder.table = from_json(self._state.load())
        except UsageError as error:
            raise StoreError(f"{AUTH_FILE_NAME}: {error}; put back a copy of the file, or mend the entry") from error

    @property
    def table(self) -> UserTable:
        """The users and policies in effect."""
        return self._holder.table

    def add_listener(self, listener: Callable[[], None]) -> None:
        """Have ``listener`` called after each change, before it is answered."""
        self._listeners.append(listener)

    def change(self, change: Change, done: Saved) -> None:
        """Make a change; ``done`` gets None once it is saved and in effect, or the error.

        ``change`` is called for several tables, so it must do the same each time. Raises what it raises for the table
        with all changes that wait.
        """
        planned = change(self._state.planned().table)
        self._check_reserved(planned)

        def saved(error: StoreError | OSError | None) -> None:
            if error is None:
                self._changed()
            done(error)

        self._state.change(lambda holder: holder.apply(change), saved)

    def ensure_administrator(self, user: User) -> None:
        """Add ``user`` and save it now if no enabled user of type Super is there. Raises StoreError."""
        if not self.table.has_administrator:
            self.change_at_start(lambda table: table._replace(users=table.users.with_user(user)))

    def change_at_start(self, change: Change) -> None:
        """Make a change and save it before this returns. Raises StoreError, and what ``change`` raises."""
        changed = change(self.table)
        if self.is_on and as_json(changed) != as_json(self.table):
            self._holder.table = changed
            self._state.change_at_once(lambda holder: None)
            self._state.save()

    def reserve(self, server_user: User) -> None:
        """Keep the name of the servers' own user free. Raises UsageError when a user has it."""
        check_server_name(list(self.table.users), server_user)
        self.server_user = server_user

    def _check_reserved(self, planned: UserTable) -> None:
        if self.server_user is not None and planned.users.get(self.server_user.name) is not None:
            raise Refusal(
                ResponseCode.NO_PERMISSION,
                f"the name {self.server_user.name} is the servers' own, in innerClientAuthenticationCredentials: "
                "choose another",
            )

    def take_over(self, content: dict[str, Any]) -> None:
        """Take a master's table in place of this one. Raises StoreError for one that can't be used."""
        try:
            taken = from_json(content)
        except UsageError as error:
            raise StoreError(f"the master's users can't be taken: {error}") from error
        self._state.take_over(lambda holder: holder.apply(lambda table: taken), read_version(content))
        self._changed()

    def save(self) -> None:
        """Save now if anything is not saved, and the table is in use. Raises StoreError."""
        if self.is_on:
            super().save()

    def _changed(self) -> None:
        for listener in self._listeners:
            listener()
