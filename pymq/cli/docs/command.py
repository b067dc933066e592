"""``pymq docs``: show a page, list all, search them."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from pymq.cli.common.options import OutputOption
from pymq.cli.declared import examples, new_app
from pymq.cli.output import Column, OutputFormat, print_line, print_listing, print_note

app = new_app()

PAGE_COLUMNS = [Column("page", folds=False), Column("title")]
FOUND_COLUMNS = [Column("page", folds=False), Column("section"), Column("text")]
PAGE_WIDTH_MAX = 100  # longer lines are hard to read


@app.command(
    epilog=examples(
        "pymq docs",
        "pymq docs tutorial",
        "pymq docs --search 'slave promote'",
        "pymq docs raft | less",
    )
)
def docs(
    page: Annotated[str | None, typer.Argument(metavar="PAGE", help="The page; without it, the list of all.")] = None,
    list_pages: Annotated[bool, typer.Option("--list", help="List all pages with their titles.")] = False,
    search: Annotated[
        str | None, typer.Option("--search", "-s", metavar="WORDS", help="Find the sections that have all the words.")
    ] = None,
    output: OutputOption = OutputFormat.table,
) -> None:
    """Show the documentation in the terminal: a page, the list of all pages, or what is found by words.

    The pages are those of the installed version. A terminal gets them formatted, a pipe as Markdown.
    """
    from pymq.cli.common.shipped import page_files
    from pymq.cli.docs import pages as work
    from pymq.errors import NotFoundError, UsageError

    if sum((page is not None, list_pages, search is not None)) > 1:
        raise UsageError("PAGE, --list and --search are three commands: give one of them")
    files = page_files()
    if not files:
        raise NotFoundError(
            "the pages are not where this package is installed: reinstall it from its wheel or a checkout"
        )
    if search is not None:
        found = work.search(files, search)
        if not found:
            raise NotFoundError(f"no section has all of: {search[:100]}")
        print_listing(found[: work.FOUND_SHOWN_MAX], FOUND_COLUMNS, output)
        if len(found) > work.FOUND_SHOWN_MAX:
            print_note(f"{len(found)} sections have the words, {work.FOUND_SHOWN_MAX} are shown: add a word")
    elif page is None:
        records = [{"page": name, "title": work.title(work.read_page(files, name))} for name in files]
        print_listing(records, PAGE_COLUMNS, output)
    else:
        _show(work.read_page(files, page))


def _show(text: str) -> None:
    """Write a page to stdout: formatted and through the pager in a terminal, else as it is."""
    if not sys.stdout.isatty():
        print_line(text.rstrip())
        return
    from rich.console import Console
    from rich.markdown import Markdown

    os.environ.setdefault("LESS", "-FRX")  # a pager must pass colors on, and end after a short page
    console = Console(width=min(Console().width, PAGE_WIDTH_MAX))
    with console.pager(styles=not os.environ.get("NO_COLOR")):
        console.print(Markdown(text))
