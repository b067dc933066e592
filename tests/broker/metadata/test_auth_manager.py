"""The saved table of users: power losses and failing disks at every call of a change, and a master's table."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from pymq.broker.metadata.auth_manager import AuthManager
from pymq.broker.metadata.config_tables import ConfigTables
from pymq.broker.metadata.table_saver import run_inline
from pymq.clock import ManualClock
from pymq.config.security import AUTH_FILE_NAME
from pymq.errors import StoreError
from pymq.security.identities import User, UserType
from pymq.security.signature import Secret
from pymq.security.user_table import USERS, UserTable
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.wire.bodies_auth import AclEntryInfo, AclInfo, PolicyInfo, UserInfo
from tests.store.support import ROOT

ADMINISTRATOR = User("root", Secret("root-secret"), UserType.SUPER)
DENY = AclEntryInfo(resource="Topic:x", actions=["All"], decision="Deny")
Lost = Callable[[MemoryFiles], MemoryFiles]
LOSSES: tuple[Lost, ...] = (
    lambda files: files.after_kill(),
    lambda files: files.after_power_loss(lambda *_: False, lambda *_: False),
    lambda files: files.after_power_loss(lambda *_: False, lambda *_: True),
    lambda files: files.after_power_loss(lambda *_: True, lambda *_: True),
)


def manager(files: MemoryFiles) -> AuthManager:
    saver = ConfigTables(files, ROOT, run_inline).saver(AUTH_FILE_NAME, USERS)
    found = AuthManager(saver, clock=ManualClock(), is_on=True)
    found.load()
    return found


def new_files() -> MemoryFiles:
    files = MemoryFiles()
    files.makedirs(f"{ROOT}/config")
    files.sync_together([], ["/", ROOT])
    return files


def make_user(auth: AuthManager, name: str, answers: list[Exception | None] | None = None) -> None:
    info = UserInfo(password=f"{name}-secret")
    done = answers.append if answers is not None else _raise
    auth.change(lambda table: table.with_new_user(name, info, ADMINISTRATOR), done)


def _raise(error: Exception | None) -> None:
    if error is not None:
        raise error


def names(table: UserTable) -> set[str]:
    return {user.name for user in table.users}


def started() -> tuple[MemoryFiles, AuthManager]:
    """Return a table with an administrator, and with a user that a rule forbids something."""
    files = new_files()
    auth = manager(files)
    auth.ensure_administrator(ADMINISTRATOR)
    make_user(auth, "ada")
    acl = AclInfo(policies=[PolicyInfo(entries=[DENY])])
    auth.change(lambda table: table.with_acl("ada", acl), _raise)
    return files, auth


def test_a_power_loss_at_any_call_leaves_the_old_or_the_new_table() -> None:
    """What was answered stays; a user that was deleted does not return, and a rule that denies is never gone alone."""
    call_count = 0
    for lost in LOSSES:
        files, auth = started()
        images: list[MemoryFiles] = []
        files.fault = lambda call, path, images=images, files=files, lost=lost: images.append(lost(files))
        answers: list[Exception | None] = []
        auth.change(lambda table: table.without_user("ada", ADMINISTRATOR), answers.append)
        files.fault = None
        call_count += len(images)
        for image in images:
            found = manager(image).table
            assert names(found) in ({"root", "ada"}, {"root"})
            assert len(found.policies) == len(names(found)) - 1
        assert answers == [None] and names(manager(lost(files)).table) == {"root"}
    assert call_count > 4 * len(LOSSES)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_a_change_that_can_not_be_saved_is_refused_and_has_no_effect(number: int) -> None:
    files, auth = started()
    heard: list[set[str]] = []
    auth.add_listener(lambda: heard.append(names(auth.table)))

    def fail(call: str, path: str) -> None:
        raise OSError(number, "the disk", path)

    files.fault = fail
    answers: list[Exception | None] = []
    make_user(auth, "bob", answers)
    assert isinstance(answers[0], StoreError) and names(auth.table) == {"root", "ada"} and not heard
    files.fault = None
    make_user(auth, "bob", answers)
    assert answers[1] is None and heard == [{"root", "ada", "bob"}]


def test_a_slave_takes_its_masters_table_and_keeps_it() -> None:
    _, master = started()
    files = new_files()
    slave = manager(files)
    heard: list[set[str]] = []
    slave.add_listener(lambda: heard.append(names(slave.table)))
    slave.take_over(master.as_table())
    assert heard == [{"root", "ada"}] and slave.table.policies.of("ada") == master.table.policies.of("ada")
    assert names(manager(files.after_kill()).table) == {"root", "ada"}
    with pytest.raises(StoreError, match="the master's users can't be taken"):
        slave.take_over({"users": {"ada": {}}})
    assert names(slave.table) == {"root", "ada"}


def test_a_table_that_others_can_read_is_refused() -> None:
    files, _ = started()
    tables = ConfigTables(files, ROOT, run_inline)
    tables.check_private(AUTH_FILE_NAME)
    files.mode = lambda path: 0o640  # type: ignore[method-assign]
    with pytest.raises(StoreError, match="has mode 0640, the limit is 0600: run chmod 600"):
        tables.check_private(AUTH_FILE_NAME)
