"""``pymq auth init`` and ``pymq auth reset``: the first administrator, and a way back when none is left."""

from __future__ import annotations

from typing import Annotated

import typer

from pymq.cli.common.options import OutputOption
from pymq.cli.output import OutputFormat, print_data, print_line, print_note

ADMINISTRATOR = "administrator"
SERVERS = "servers"

NameOption = Annotated[str, typer.Option("--name", metavar="USER", help="The administrator's name.")]


def init(
    directory: Annotated[str, typer.Argument(metavar="DIR", help="Where the files are; made if it is missing.")],
    name: NameOption = ADMINISTRATOR,
    output: OutputOption = OutputFormat.table,
) -> None:
    """Make the first administrator and the servers' credential, and show the settings that use them.

    The secrets are random, and in two files that only you can read. Nothing else has them.
    """
    from pathlib import Path

    from pymq.errors import UsageError
    from pymq.offline.auth_files import make_private_directory, new_secret, write_credentials

    path = Path(directory).expanduser().absolute()
    files = {name: path / f"{ADMINISTRATOR}.yml", SERVERS: path / f"{SERVERS}.yml"}
    if len(files) == 1:
        raise UsageError(f"--name {SERVERS} is the name of the servers' own user: choose another")
    make_private_directory(path)
    for file in files.values():
        if file.exists():
            raise UsageError(f"{file} is there already: name another directory, or move the file away")
    for access_key, file in files.items():
        write_credentials(file, access_key, new_secret())
    settings = {
        "authenticationEnabled": "true",
        "authorizationEnabled": "true",
        "initAuthenticationUser": f"file:{files[name]}",
        "innerClientAuthenticationCredentials": f"file:{files[SERVERS]}",
    }
    record = {
        "administrator": name,
        "administrator_file": str(files[name]),
        "servers_file": str(files[SERVERS]),
        "values": settings,
    }
    if print_data(record, output):
        return
    print_line("# Every broker and name server has these lines in its configuration file:")
    for key, value in settings.items():
        print_line(f"{key}={value}")
    print_line("# A name server also has the users of a broker, or a copy of them:")
    print_line("authFile=STORE/config/auth.json")
    print_line("# For your commands, once:")
    print_line(f"pymq context add NAME --namesrv HOST:9876 --credentials file:{files[name]}")
    print_note(f"copy {files[SERVERS]} to every server of the cluster, with mode 0600; keep {files[name]} for yourself")


def reset(
    store: Annotated[str, typer.Argument(metavar="STORE", help="The data directory of a stopped broker.")],
    write: Annotated[str, typer.Option("--write", metavar="FILE", help="A new file for its credentials, mode 0600.")],
    name: NameOption = ADMINISTRATOR,
    output: OutputOption = OutputFormat.table,
) -> None:
    """Give a stopped broker an administrator with a new secret, when the secrets of all are lost.

    It needs the broker's files. A slave takes its master's users, so do it on the master.
    """
    from pathlib import Path

    from pymq.offline.auth_files import new_secret, reset_administrator, write_credentials
    from pymq.store.disk.fs import RealFiles

    secret, file = new_secret(), Path(write).expanduser().absolute()
    root = str(Path(store).expanduser().absolute())
    write_credentials(file, name, secret)
    try:
        is_new = reset_administrator(RealFiles(), root, name, secret)
    except BaseException:
        file.unlink()
        raise
    record = {"user": name, "is_new": is_new, "credentials_file": str(file)}
    if not print_data(record, output):
        print_line(f"{name} is an administrator of {root} with a new secret, which is in {file}")
