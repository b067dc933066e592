"""The scripts of the shells, and the answer to a shell that asks what could come next."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pymq.errors import UsageError

SHELLS = ("bash", "zsh", "fish")
ASKED_VARIABLE = "_PYMQ_COMPLETE"  # a shell's script sets it
FLAGS = ("--install-completion", "--show-completion")
_PROGRAM = "pymq"


def with_shell(arguments: list[str], env: Mapping[str, str]) -> list[str]:
    """Return the arguments, with the user's shell after a flag for completion that names none."""
    if not arguments or arguments[-1] not in FLAGS:
        return arguments
    return [*arguments, Path(env.get("SHELL", "")).name or "bash"]


def script(shell: str) -> str:
    """Return the script that a shell reads. Raises UsageError for another shell than :data:`SHELLS`."""
    from typer._completion_shared import get_completion_script

    return get_completion_script(prog_name=_PROGRAM, complete_var=ASKED_VARIABLE, shell=_known(shell))


def install(shell: str) -> Path:
    """Write the script to where the shell looks for it, and return its path. Raises UsageError, OSError."""
    from typer._completion_shared import install as install_script

    return install_script(shell=_known(shell), prog_name=_PROGRAM, complete_var=ASKED_VARIABLE)[1]


def _known(shell: str) -> str:
    if shell not in SHELLS:
        raise UsageError(f"completion for {shell!r} is not there: use one of {', '.join(SHELLS)}")
    return shell


def answer(command: Any) -> str:
    """Return what the shell asked for in its environment variables, and nothing at a failure."""
    from typer._completion_classes import completion_init

    completion_init()
    out, errors = io.StringIO(), contextlib.suppress(Exception, SystemExit)  # it ends with SystemExit
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()), errors:
        command.main([], prog_name=_PROGRAM, complete_var=ASKED_VARIABLE, standalone_mode=False)
    return out.getvalue()
