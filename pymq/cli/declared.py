"""Declared commands: what a command takes follows from its signature.

A function becomes a command with ``@app.command(...)`` of an app that :func:`new_app` made::

    @app.command("list", epilog=examples("pymq topic list"), watched=True)
    def list_topics(session: Session, output: OutputOption = OutputFormat.table) -> None:
        \"\"\"List topics.\"\"\"
        print_listing(session.ask(work.list_topics), COLUMNS, output)

- A parameter ``session: Session`` gives --namesrv, --context, --credentials and --timeout, and opens the admin client.
- A parameter of type NamesrvOption gives --context and --credentials to a command with clients of its own.
- A parameter ``output`` whose formats include json gives --json.
- ``watched=True`` gives --watch to a command that only looks.

A command that has an option of the same name keeps its own. ``autocompletion=live(...)`` of an argument or option says
what the shell completes: see :mod:`pymq.cli.common.live`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from enum import Enum
from inspect import Parameter, Signature
from typing import Any, TypeVar, get_args

import typer
from typer.models import OptionInfo

from pymq.cli.common import shared_options as shared
from pymq.cli.common.options import DEFAULT_NAMESRV, NamesrvOption
from pymq.cli.common.session import Session

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


class Commands(typer.Typer):
    """An app whose commands are declared."""

    def command(
        self, name: str | None = None, *, watched: bool = False, **settings: Any
    ) -> Callable[[FunctionT], FunctionT]:
        """Return a decorator that makes a function a command; ``settings`` are Typer's."""
        register = super().command(name, **settings)

        def declare(function: FunctionT) -> FunctionT:
            register(_declared(function, watched=watched))
            return function

        return declare


def new_app(help_text: str | None = None) -> Commands:
    """Return an app with plain text help: otherwise Typer imports rich for every ``--help``."""
    settings: dict[str, Any] = {} if help_text is None else {"help": help_text}
    return Commands(rich_markup_mode=None, add_completion=False, no_args_is_help=True, **settings)


def examples(*lines: str) -> str:
    r"""Return a command's epilog with its examples; the ``\b`` mark keeps their line breaks."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def _declared(function: Callable[..., Any], *, watched: bool) -> Callable[..., Any]:
    """Return a function that Typer can make a command of: with all options, which it keeps from ``function``."""
    given = list(inspect.signature(function, eval_str=True).parameters.values())
    session = next((one.name for one in given if one.annotation is Session), None)
    taken = [one for one in given if one.name != session]
    added = [*_beside(taken), *_at_the_end(taken, session, watched=watched)]
    hidden = {one.name for one in added} - {one.name for one in taken} - {"namesrv"}

    @functools.wraps(function)
    def command(**values: Any) -> Any:
        context = values.get("ctx")
        kept = {name: value for name, value in values.items() if name not in hidden}
        if session is not None:
            kept[session] = Session(kept.pop("namesrv"))
        if context is None or (interval_s := shared.watch_interval_s(context)) is None:
            return function(**kept)
        from pymq.cli.common.watch import watch

        return watch(lambda: function(**kept), context.command_path, interval_s)

    command.__signature__ = Signature(added)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in added}
    return command


def _beside(taken: list[Parameter]) -> Iterator[Parameter]:
    """Yield the parameters of a function, each followed by the options that belong beside it."""
    for one in taken:
        yield one.replace(kind=Parameter.KEYWORD_ONLY)
        if one.name == "output" and _has_json(one.annotation):
            yield _option("json", shared.SameAsJsonOption)
        if one.annotation == NamesrvOption:
            yield _option("context", shared.ContextOption)


def _at_the_end(taken: list[Parameter], session: str | None, *, watched: bool) -> Iterator[Parameter]:
    if session is not None:
        yield _option("namesrv", NamesrvOption, DEFAULT_NAMESRV)
        yield _option("context", shared.ContextOption)
    is_client = session is not None or any(one.annotation == NamesrvOption for one in taken)
    own = {flag for one in taken for flag in _flags(one.annotation)}
    if is_client and "--credentials" not in own:
        yield _option("credentials", shared.CredentialsOption)
    if session is not None and "--timeout" not in own:
        yield _option("timeout", shared.TimeoutOption)
    if watched:
        yield _option("watch", shared.WatchOption)
        yield _option("ctx", typer.Context)


def _flags(annotation: Any) -> Iterator[str]:
    """Yield the flags of an option; Typer keeps the first one as the default in ``Annotated``."""
    for info in get_args(annotation)[1:]:
        if isinstance(info, OptionInfo):
            yield from (str(info.default), *(info.param_decls or ()))


def _has_json(annotation: Any) -> bool:
    kind, *_ = get_args(annotation) or (annotation,)
    return isinstance(kind, type) and issubclass(kind, Enum) and "json" in kind.__members__


def _option(name: str, annotation: Any, default: Any = None) -> Parameter:
    given = Parameter.empty if annotation is typer.Context else default
    return Parameter(name, Parameter.KEYWORD_ONLY, annotation=annotation, default=given)
