"""The entry point, with the tables of commands: name -> (module, one line of help).

``pymq --help`` must stay fast. So this module and :mod:`pymq.cli.lazy` import only Typer, a command's module is
imported when the command is called, and it imports asyncio, msgspec, rich and the rest inside its functions.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import typer
from typer.main import get_command

from pymq import __version__
from pymq.cli.lazy import CommandTable, LazyGroup
from pymq.errors import EXIT_FAILED, EXIT_OK, EXIT_USAGE, PymqError

HEADINGS: Mapping[str, CommandTable] = {
    "Servers": {
        "standalone": ("pymq.cli.standalone.command", "Name server and broker in one process: the quick start."),
        "namesrv": ("pymq.cli.namesrv.command", "Run a name server."),
        "broker": ("pymq.cli.broker.command", "Run a broker."),
        "proxy": ("pymq.cli.proxy.command", "Serve RocketMQ's 5.x clients, which speak gRPC."),
        "console": ("pymq.cli.console.command", "Serve pages about clusters to browsers."),
        "filter-server": ("pymq.cli.filter_server.command", "Run plugin filters between a broker and consumers."),
        "exporter": ("pymq.cli.exporter.command", "Serve metrics of a whole cluster to Prometheus."),
    },
    "Look": {
        "doctor": ("pymq.cli.doctor.command", "Look at the whole cluster, and name what is wrong."),
        "top": ("pymq.cli.top.command", "Brokers, topics and groups with their rates, live."),
        "cluster": ("pymq.cli.cluster.command", "List the brokers of all clusters with their roles and lag."),
        "stats": ("pymq.cli.stats.command", "Messages of the last minute, hour and day."),
        "check": ("pymq.cli.check.command", "Check brokers, lag, disks, replicas or Raft groups."),
        "message": ("pymq.cli.message.command", "Look messages up by id or key, and trace one."),
        "tail": ("pymq.cli.tail.command", "Show messages from any point on, and new ones as they arrive."),
    },
    "Operate": {
        "topic": ("pymq.cli.topic.command", "List, create, update, delete and inspect topics."),
        "group": ("pymq.cli.group.command", "List, create, change, delete and inspect consumer groups."),
        "lite": ("pymq.cli.lite.command", "List and inspect lite topics, and the lag of their groups."),
        "offset": ("pymq.cli.offset.command", "Show where consumer groups are, and move them."),
        "dlq": ("pymq.cli.dlq.command", "List, show, resend, export and delete dead letters."),
        "config": ("pymq.cli.config.command", "Show, change and check settings of brokers and name servers."),
        "auth": ("pymq.cli.auth.command", "Users, what they may do, and certificates for TLS."),
        "raft": ("pymq.cli.raft.command", "Brokers that elect their leader themselves."),
        "mirror": ("pymq.cli.mirror.command", "Copy topics to another cluster, resumable and in order."),
        "store": ("pymq.cli.store.command", "Verify, inspect, dump, repair or rebuild a data directory."),
        "context": ("pymq.cli.context.command", "Name clusters, and choose the one that commands work on."),
    },
    "Data": {
        "send": ("pymq.cli.send.command", "Send messages: an argument, lines or JSON lines."),
        "spark-export": ("pymq.cli.spark.spark_export", "Export topics to Parquet, JSON or CSV with Spark."),
        "spark-import": ("pymq.cli.spark.spark_import", "Send rows of Parquet, JSON or CSV to topics with Spark."),
        "spark-prepare": ("pymq.cli.spark.spark_prepare", "Halve the time that Spark takes to start."),
        "spark-sql": ("pymq.cli.spark.spark_sql", "Query topics, store directories and lakes with SQL."),
        "pipeline": ("pymq.cli.pipeline.command", "Run a file of sources, SQL steps and sinks with Spark."),
    },
    "Develop": {
        "filter": ("pymq.cli.filter.command", "List message filters, and try expressions on messages."),
        "bench": ("pymq.cli.bench.command", "Load a broker with sends, pulls or round trips."),
        "docs": ("pymq.cli.docs.command", "Show the pages of the documentation, or search them."),
        "conf": ("pymq.cli.conf.command", "Write examples: settings, services, dashboards, pipelines."),
    },
}
COMMANDS: CommandTable = {name: entry for table in HEADINGS.values() for name, entry in table.items()}
EXIT_INTERRUPTED = 130


class RootGroup(LazyGroup):
    """The top level group: all commands of :data:`COMMANDS`, below their headings."""

    table = COMMANDS
    headings = HEADINGS


app = typer.Typer(
    cls=RootGroup,
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},  # of all commands: a context inherits it
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"pymq {__version__}")
        raise typer.Exit


def _install_completion(shell: str | None) -> None:
    if shell is not None:
        from pymq.cli.completion.shells import install

        typer.echo(f"completion for {shell} is in {install(shell)}: it works in the next shell")
        raise typer.Exit


def _show_completion(shell: str | None) -> None:
    if shell is not None:
        from pymq.cli.completion.shells import script

        typer.echo(script(shell))
        raise typer.Exit


@app.callback(
    epilog="Exit codes: 0 ok, 1 failed, 2 usage, 3 not found, 4 unreachable, 5 refused, 6 done in part. "
    "pymq docs shows the documentation, pymq docs tutorial the first steps."
)
def root(
    version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True, help="Show the version."),
    context: str | None = typer.Option(None, "--context", metavar="NAME", help="The cluster: a context's name."),
    shell_to_install: str | None = typer.Option(
        None,
        "--install-completion",
        metavar="[SHELL]",
        callback=_install_completion,
        is_eager=True,
        help="Install completion for bash, zsh or fish.",
    ),
    shell_to_show: str | None = typer.Option(
        None,
        "--show-completion",
        metavar="[SHELL]",
        callback=_show_completion,
        is_eager=True,
        help="Show the script of bash, zsh or fish.",
    ),
) -> None:
    """Run and use all parts of an Apache RocketMQ style system with one command.

    Client commands find the cluster through --namesrv, --context, the NAMESRV_ADDR variable, PYMQ_CONTEXT, the current
    context (pymq context use), or 127.0.0.1:9876.
    """


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit with its code. Print an error as one line (with PYMQ_DEBUG=1 its traceback)."""
    if os.environ.get("_PYMQ_COMPLETE"):
        from pymq.cli.completion.shells import answer

        sys.stdout.write(answer(get_command(app)))
        sys.exit(EXIT_OK)
    sys.exit(run(list(sys.argv[1:] if arguments is None else arguments)))


def run(arguments: list[str]) -> int:
    """Run ``pymq ARGUMENTS`` and return the exit code."""
    if os.environ.get("PYMQ_DEBUG") == "1":
        return _exit_code(_invoke(arguments))
    try:
        return _exit_code(_invoke(arguments))
    except PymqError as error:
        return _fail(str(error), error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        return EXIT_INTERRUPTED
    except Exception as error:
        if hasattr(error, "format_message"):  # an error of Typer or click: the arguments can't be parsed
            return _fail(_usage_text(error), EXIT_USAGE)
        if isinstance(error, OSError):
            return _fail(_os_error_text(error), EXIT_FAILED)
        return _fail(
            f"internal error: {type(error).__name__}: {_text_of(error)} (PYMQ_DEBUG=1 shows where)", EXIT_FAILED
        )


def _invoke(arguments: list[str]) -> Any:
    if arguments and arguments[-1].endswith("-completion"):
        from pymq.cli.completion.shells import with_shell

        arguments = with_shell(arguments, os.environ)
    return get_command(app).main(arguments, prog_name="pymq", standalone_mode=False)


def _exit_code(returned: object) -> int:
    return returned if isinstance(returned, int) else 0


def _fail(text: str, exit_code: int) -> int:
    one_line = " ".join(text.split())
    if one_line:
        from pymq.cli.output import print_note

        print_note(f"pymq: {one_line}")
    return exit_code


def _text_of(error: Exception) -> str:
    """Return an error's text; an error of PySpark has none after its JVM has ended."""
    try:
        return str(error)
    except Exception as second:
        return f"without a text ({type(second).__name__})"


def _usage_text(error: Any) -> str:
    """Return Typer's message with the help to read. For a group without a command it prints that group's help."""
    context: Any = getattr(error, "ctx", None)
    if context is not None and type(error).__name__ == "NoArgsIsHelpError":
        print(context.get_help(), file=sys.stderr)
        return ""
    text = error.format_message().rstrip(".")
    return f"{text} (see {context.command_path} --help)" if context is not None else text


def _os_error_text(error: OSError) -> str:
    name = f"{error.filename}: " if error.filename else ""
    return f"{name}{error.strerror or error}"
