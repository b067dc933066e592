"""``pymq context``: add, use, list, show, remove."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from pymq.cli.common.live import live
from pymq.cli.common.options import DryRunOption, OutputOption, split_addresses
from pymq.cli.declared import examples, new_app
from pymq.cli.output import Column, OutputFormat, print_data, print_fields, print_line, print_listing, print_note
from pymq.errors import UsageError

app = new_app("Name clusters, and choose the one that commands work on.")

NewNameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The context.")]
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The context.", autocompletion=live("context"))]
COLUMNS = [Column("current"), Column("name"), Column("namesrv", "NAME SERVERS")]


@app.command(
    epilog=examples(
        "pymq context add prod --namesrv 'ns-1:9876;ns-2:9876' --brokers 'broker-a;broker-b'",
        "pymq context add local --namesrv 127.0.0.1:9876 --use",
    )
)
def add(
    name: NewNameArgument,
    name_servers: Annotated[
        str, typer.Option("--namesrv", metavar="HOST:PORT;…", help="Its name servers, separated by ';'.")
    ],
    credentials: Annotated[
        str | None,
        typer.Option("--credentials", metavar="env:PREFIX|file:PATH", help="What its requests are signed with."),
    ] = None,
    brokers: Annotated[
        str | None,
        typer.Option(
            "--brokers",
            metavar="NAME;…",
            help="The names of its brokers: commands say when one is missing.",
            autocompletion=live("broker"),
        ),
    ] = None,
    use_it: Annotated[bool, typer.Option("--use", help="Make it the current one.")] = False,
    replace: Annotated[bool, typer.Option("--replace", help="Change a context that exists.")] = False,
    dry_run: DryRunOption = False,
) -> None:
    """Name a cluster. The first context becomes the current one."""
    from pymq.cli.common.context_file import broker_names, check_name, load_contexts
    from pymq.security.credentials import check_reference

    if credentials:
        check_reference(credentials)
    contexts = load_contexts(os.environ)
    if check_name(name) in contexts.name_servers and not replace:
        raise UsageError(f"there is a context {name!r} already: --replace changes it")
    is_first = not contexts.name_servers
    contexts.name_servers[name] = ";".join(split_addresses(name_servers))
    contexts.credentials.pop(name, None)
    contexts.brokers.pop(name, None)
    if brokers is not None and broker_names(brokers):
        contexts.brokers[name] = ";".join(broker_names(brokers))
    if credentials:
        contexts.credentials[name] = credentials
    if use_it or is_first:
        contexts.current = name
    if not dry_run:
        contexts.save()
    _tell(f"context {name} is {contexts.name_servers[name]}", dry_run)
    if contexts.current == name:
        print_line(f"{name} is the current context")


@app.command(epilog=examples("pymq context use prod"))
def use(name: NameArgument, dry_run: DryRunOption = False) -> None:
    """Make a context the current one: commands work on its cluster unless a flag or the environment says otherwise."""
    from pymq.cli.common.context_choice import CONTEXT_VARIABLE, NAMESRV_VARIABLE
    from pymq.cli.common.context_file import load_contexts

    contexts = load_contexts(os.environ)
    contexts.find(name)
    contexts.current = name
    if not dry_run:
        contexts.save()
    _tell(f"{name} is the current context", dry_run)
    for variable in (NAMESRV_VARIABLE, CONTEXT_VARIABLE):
        if os.environ.get(variable):
            print_note(f"pymq: warning: {variable} is set, and goes before the current context")


@app.command("list", epilog=examples("pymq context list", "pymq context list -o json"))
def list_contexts(output: OutputOption = OutputFormat.table) -> None:
    """List the contexts."""
    from pymq.cli.common.context_file import broker_names, load_contexts

    contexts = load_contexts(os.environ)
    records = [
        {
            "name": name,
            "namesrv": servers,
            "credentials": contexts.credentials.get(name),
            "brokers": broker_names(contexts.brokers.get(name, "")),
            "current": name == contexts.current,
        }
        for name, servers in sorted(contexts.name_servers.items())
    ]
    print_listing(records, COLUMNS, output, "no contexts: pymq context add NAME --namesrv HOST:PORT makes one")


@app.command(epilog=examples("pymq context show", "pymq context show prod -o json"))
def show(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="The context; default: what commands use.", autocompletion=live("context")),
    ] = None,
    output: OutputOption = OutputFormat.table,
) -> None:
    """Show the name servers of a context, or those that commands use now and what chose them."""
    from pymq.cli.common.context_choice import chosen
    from pymq.cli.common.context_file import load_contexts

    contexts = load_contexts(os.environ)
    found = chosen(name, os.environ)
    record = {
        "name": name,
        "namesrv": found.namesrv,
        "credentials": found.credentials or None,
        "brokers": list(found.brokers),
        "origin": "named" if name is not None else found.origin,
        "file": str(contexts.path),
    }
    if not print_data(record, output):
        shown = record | {"brokers": ", ".join(found.brokers) or None}
        print_fields({label: value for label, value in shown.items() if value is not None})


@app.command(epilog=examples("pymq context remove old"))
def remove(name: NameArgument, dry_run: DryRunOption = False) -> None:
    """Remove a context. Nothing happens to its cluster."""
    from pymq.cli.common.context_file import load_contexts

    contexts = load_contexts(os.environ)
    contexts.find(name)
    del contexts.name_servers[name]
    contexts.credentials.pop(name, None)
    contexts.brokers.pop(name, None)
    was_current = contexts.current == name
    if was_current:
        contexts.current = None
    if not dry_run:
        contexts.save()
    _tell(f"context {name} is removed", dry_run)
    if was_current:
        print_note("pymq: no context is the current one now: pymq context use NAME chooses one")


def _tell(text: str, dry_run: bool) -> None:
    print_line(f"would write: {text}" if dry_run else text)
