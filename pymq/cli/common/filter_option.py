"""The options ``--sql``, ``--filter``, ``--expr`` and ``--via`` of commands that read messages."""

from __future__ import annotations

from typing import Annotated

import typer

from pymq.filter.class_names import FILTER_SERVER

PluginOption = Annotated[
    str | None,
    typer.Option(
        "--filter", metavar="NAME[:EXPR]", help="Only messages that match this filter (see pymq filter list)."
    ),
]
ExpressionOption = Annotated[
    str | None, typer.Option("--expr", metavar="EXPR", help="The filter's expression, if it doesn't follow its name.")
]
ViaOption = Annotated[
    str | None,
    typer.Option("--via", metavar=FILTER_SERVER, help="Run the filter in the broker's filter servers, not here."),
]


SqlOption = Annotated[
    str | None,
    typer.Option("--sql", metavar="SQL92", help="Only messages that match, such as \"size > 5 AND color = 'red'\"."),
]
