"""Says at an argument or option that the shell completes it with the names that a cluster knows now."""

# No postponed annotations here: Typer evaluates those of a callback once for each option of each command.

from collections.abc import Callable
from importlib import import_module
from typing import Literal

import typer

_NAMES = "pymq.cli.completion.names"
# A setting's key, alone or with "=" for a value to follow.
Kind = Literal["topic", "group", "broker", "cluster", "context", "setting", "setting="]


def live(kind: Kind) -> Callable[[typer.Context, str], list[str]]:
    """Return the ``autocompletion`` of an argument or option that names things of a kind."""

    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        # By name, as commands are: completion asks through what this package has.
        found: list[str] = import_module(_NAMES).complete_names(kind, ctx, incomplete)
        return found

    return complete
