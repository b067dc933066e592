"""``pymq namesrv kv``: the values that name servers keep for everyone, by namespace and key."""

from __future__ import annotations

from typing import Annotated

import typer

from pymq.cli.common.options import OutputOption
from pymq.cli.common.session import Session
from pymq.cli.declared import examples, new_app
from pymq.cli.output import Column, OutputFormat, print_line, print_listing

app = new_app()

COLUMNS = [Column("key"), Column("value")]
_SET = "pymq namesrv kv set settings color blue"

NamespaceArgument = Annotated[str, typer.Argument(metavar="NAMESPACE", help="The namespace.")]
KeyArgument = Annotated[str, typer.Argument(metavar="KEY", help="The key.")]


@app.callback(epilog=examples("pymq namesrv kv list ORDER_TOPIC_CONFIG", "pymq namesrv kv get settings color", _SET))
def group() -> None:
    """List, get, set and delete the values that name servers keep in memory.

    A change goes to every name server (exit code 6: not all were there). They lose all values when they stop.
    """


@app.command("list", epilog=examples("pymq namesrv kv list ORDER_TOPIC_CONFIG"))
def list_values(session: Session, namespace: NamespaceArgument, output: OutputOption = OutputFormat.table) -> None:
    """List all values of a namespace."""
    found = session.ask(lambda admin: admin.namesrv.values(namespace))
    records = [{"key": key, "value": value} for key, value in sorted(found.items())]
    print_listing(records, COLUMNS, output, f"no values in namespace {namespace}: pymq namesrv kv set makes one")


@app.command(epilog=examples("pymq namesrv kv get settings color"))
def get(session: Session, namespace: NamespaceArgument, key: KeyArgument) -> None:
    """Print one value. Exit code 3: it is not set."""
    from pymq.errors import NotFoundError

    value = session.ask(lambda admin: admin.namesrv.value(namespace, key))
    if value is None:
        raise NotFoundError(f"no value {key!r} in namespace {namespace!r}: pymq namesrv kv list {namespace} shows all")
    print_line(value)


@app.command("set", epilog=examples(_SET))
def set_value(
    session: Session,
    namespace: NamespaceArgument,
    key: KeyArgument,
    value: Annotated[str, typer.Argument(metavar="VALUE", help="The value.")],
) -> None:
    """Set one value at every name server."""
    session.ask(lambda admin: admin.namesrv.put_value(namespace, key, value))
    print_line(f"{namespace} {key} is {value}")


@app.command(epilog=examples("pymq namesrv kv delete settings color"))
def delete(session: Session, namespace: NamespaceArgument, key: KeyArgument) -> None:
    """Delete one value at every name server. Without such a value nothing happens."""
    session.ask(lambda admin: admin.namesrv.delete_value(namespace, key))
    print_line(f"{namespace} {key} is not set")
