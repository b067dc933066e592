"""``pymq auth cert``: a certificate authority of one's own, and certificates of it."""

from __future__ import annotations

from typing import Annotated

import typer

from pymq.cli.common.options import OutputOption
from pymq.cli.output import OutputFormat, print_data, print_line, print_note
from pymq.packages import pip_install

DAYS = 365


def cert(
    directory: Annotated[str, typer.Argument(metavar="DIR", help="Where the files are; made if it is missing.")],
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="Who it is for; also the name of its files.")],
    hosts: Annotated[
        list[str] | None,
        typer.Option("--host", metavar="HOST|IP", help="A server's name or address for clients; repeatable."),
    ] = None,
    days: Annotated[int, typer.Option("--days", metavar="N", min=1, max=3650, help="How long it is valid.")] = DAYS,
    replace: Annotated[bool, typer.Option("--replace", help="Replace the files of this name, to renew them.")] = False,
    output: OutputOption = OutputFormat.table,
) -> None:
    """Make a certificate for a server or a client, and the authority that vouches for it.

    The first call makes the authority: ca.pem goes to every server and client, and ca.key stays where you make
    certificates.
    """
    from datetime import UTC, datetime
    from pathlib import Path

    from pymq.errors import UsageError

    try:
        from pymq.offline.certificates import Authority
    except ModuleNotFoundError:
        raise UsageError(f"certificates need the package cryptography: {pip_install('tls')}") from None

    authority = Authority(Path(directory), datetime.now(UTC))
    files = authority.issue(name, hosts or [], days=days, is_replaced=replace)
    record = {
        "name": name,
        "certificate": str(files.cert_path),
        "key": str(files.key_path),
        "authority": str(authority.files.cert_path),
        "is_authority_new": authority.is_new,
        "valid_days": days,
    }
    if output is not OutputFormat.table:
        print_data(record, output)
        return
    if authority.is_new:
        print_note(f"made a new authority: keep {authority.files.key_path} secret, it signs certificates")
    print_line(f"# {name}, valid for {days} days. For a server, in its configuration file:")
    for key, path in (
        ("tls.server.certPath", files.cert_path),
        ("tls.server.keyPath", files.key_path),
        ("tls.client.trustCertPath", authority.files.cert_path),
    ):
        print_line(f"{key}={path.resolve()}")
    print_line("# For pymq commands and clients, in the environment:")
    print_line("export PYMQ_TLS_ENABLE=true")
    print_line(f"export PYMQ_TLS_CLIENT_TRUST_CERT_PATH={authority.files.cert_path.resolve()}")
