"""Files of credentials, and the way back for an administrator who is locked out: what needs the file system alone."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Final

from pymq.config.security import AUTH_FILE_NAME
from pymq.errors import UsageError
from pymq.file_modes import DIRECTORY_MODE, FILE_MODE
from pymq.security.identities import User, UserType
from pymq.security.signature import Secret
from pymq.security.user_table import USERS, as_json, from_json
from pymq.store.disk.fs import Files
from pymq.store.disk.json_table import JsonTable

SECRET_BYTES: Final = 24  # of randomness, 32 characters


def new_secret() -> str:
    """Return a random secret of 32 characters."""
    return secrets.token_urlsafe(SECRET_BYTES)


def make_private_directory(path: Path) -> None:
    """Make a directory that only its owner can enter, and those above it, if they are missing. Raises UsageError."""
    missing = [path, *path.parents]
    try:
        # mkdir's own way gives the directories above whatever mode the umask leaves.
        for each in reversed([each for each in missing if not each.exists()]):
            each.mkdir(DIRECTORY_MODE, exist_ok=True)
        path.mkdir(DIRECTORY_MODE, exist_ok=True)  # refuses a file in its place
    except OSError as error:
        raise UsageError(f"{path} can't be made: {error.strerror}; name another directory") from error


def write_credentials(path: Path, access_key: str, secret: str) -> None:
    """Write a new file of credentials that only its owner can use, on the disk on return.

    Raises UsageError for a file that is there already, and for one that can't be written.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(f"accessKey: {_quoted(access_key)}\nsecretKey: {_quoted(secret)}\n")
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError:
        raise UsageError(f"{path} is there already: name another file, or move it away") from None
    except OSError as error:
        raise UsageError(f"{path} can't be written: {error.strerror}; name another file") from error


def make_first_user(files: Files, path: str, user: User) -> bool:
    """Make a user in a file of users, and the file with its directory if they are missing; True when it is a new one.

    A user of that name stays as it is. Raises StoreError for a file that can't be read or written, UsageError for an
    entry or a directory that can't be used.
    """
    make_private_directory(Path(path).parent)
    table = JsonTable(files, path, may_go_back=False)
    content = table.load()
    users = from_json(content)
    if users.users.get(user.name) is not None:
        return False
    table.save({**content, **as_json(users._replace(users=users.users.with_user(user)))})
    return True


def reset_administrator(files: Files, root: str, name: str, secret: str) -> bool:
    """Make ``name`` an enabled user of type Super of a stopped broker; True when it is a new one.

    Raises StoreError while a broker uses the directory ``root``, or for a table that can't be read, and UsageError for
    a directory without one.
    """
    path = f"{root}/config/{AUTH_FILE_NAME}"
    if not files.exists(path):
        raise UsageError(f"{path} is missing: a broker makes it when it starts with authenticationEnabled=true")
    lock = files.lock(f"{root}/lock")
    try:
        table = JsonTable(files, path, USERS, may_go_back=False)
        content = table.load()
        users = from_json(content)
        is_new = users.users.get(name) is None
        changed = users._replace(users=users.users.with_user(User(name, Secret(secret), UserType.SUPER)))
        table.save({**content, **as_json(changed)})
    finally:
        lock.release()
    return is_new


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
