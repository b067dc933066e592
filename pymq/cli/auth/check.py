"""``pymq auth check``: why a user may do something, or may not, rule by rule."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from pymq.cli.auth.common import ResourceArgument
from pymq.cli.common.live import live
from pymq.cli.common.options import OutputOption
from pymq.cli.common.session import Session
from pymq.cli.output import Column, OutputFormat, print_data, print_fields, print_section

LOOPBACK = "127.0.0.1"
RULE_COLUMNS = [Column("applies"), Column("level"), Column("rule"), Column("why_not")]


def check(
    session: Session,
    name: Annotated[
        str, typer.Argument(metavar="USER|certificate:FILE", help="The user's name, or a client's certificate (PEM).")
    ],
    action: Annotated[str, typer.Argument(metavar="ACTION", help="Pub, Sub, Create, Update, Delete, Get or List.")],
    resource: ResourceArgument,
    source: Annotated[str, typer.Option("--from", metavar="ADDRESS", help="Where the request comes from.")] = LOOPBACK,
    broker: Annotated[
        str | None,
        typer.Option(
            "-b",
            "--broker",
            metavar="NAME|HOST:PORT",
            help="Whose users; default: any master's.",
            autocompletion=live("broker"),
        ),
    ] = None,
    acl: Annotated[
        str | None, typer.Option("--acl", metavar="FILE", help="The accounts of this 4.x ACL file, not of a broker.")
    ] = None,
    mapping: Annotated[
        str | None,
        typer.Option("--mapping", metavar="RULES", help="For a certificate: these rules, not the broker's."),
    ] = None,
    output: OutputOption = OutputFormat.table,
) -> None:
    """Say whether a user may do something, and which rules decide. A broker of PyMQ decides so.

    RocketMQ 5.3.3 orders rules of prefixes in another way.
    """
    from pymq.operations.auth.decision import Asked, explained, rules_of_broker, rules_of_file

    asked = Asked.of(name, mapping)
    if acl:
        user, policy = rules_of_file(acl, asked)
    else:
        user, policy = session.ask(lambda admin: rules_of_broker(admin, broker, asked))
    record = explained(user, policy, action, resource, source, asked)
    if not print_data(record, output):
        _print(record)


def _print(record: dict[str, Any]) -> None:
    print_fields(
        {
            "allowed": record["allowed"],
            "why": record["why"],
            **({"certificate": f"{record['subject']}, by {record['mapping']}"} if "subject" in record else {}),
            "user": f"{record['user']} ({record['type']}{'' if record['enabled'] else ', disabled'})",
            "asked": f"{record['action']} on {record['resource']} from {record['source']}",
        }
    )
    print_section("rules", record["rules"], RULE_COLUMNS, "none")
