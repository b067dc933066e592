"""``pymq docs``: every page, a search by words, and the text that a pipe gets."""

from __future__ import annotations

from pathlib import Path

import pytest

from pymq.cli.common.shipped import TOP_PAGES, page_files
from pymq.cli.docs.pages import FOUND_SHOWN_MAX, read_page, search, sections, title
from pymq.errors import EXIT_NOT_FOUND, EXIT_OK, EXIT_USAGE, NotFoundError
from tests.cli.conftest import Pymq
from tests.cli.schemas import assert_documented

ROOT = Path(__file__).parents[3]


def test_every_page_of_the_tree_is_there_with_a_title() -> None:
    names = set(page_files())
    assert names == {path.stem for path in (ROOT / "docs").glob("*.md")} | set(TOP_PAGES)
    assert all(title(read_page(page_files(), name)) for name in names)


def test_the_list_has_every_page(pymq: Pymq) -> None:
    records = pymq("docs", "-o", "json").json()
    assert records == pymq("docs", "--list", "-o", "json").json()
    assert_documented("docs", records[0])
    assert [record["page"] for record in records] == list(page_files())


@pytest.mark.parametrize("name", ["tutorial", "Tutorial", "docs/tutorial.md"])
def test_a_page_is_markdown_in_a_pipe_without_comments(pymq: Pymq, name: str) -> None:
    done = pymq("docs", name)
    assert done.code == EXIT_OK and done.out.startswith("# First messages\n")
    assert "<!--" not in done.out and "pymq standalone" in done.out


def test_words_are_found_in_headings_first_and_cut_is_said(pymq: Pymq) -> None:
    found = pymq("docs", "--search", "flap leader", "-o", "json").json()
    assert (found[0]["page"], found[0]["section"]) == ("raft", "When the leader flaps")
    assert (ROOT / "docs" / "raft.md").read_text().splitlines()[found[0]["line"] - 1].lstrip("# ") == found[0]["text"]
    many = pymq("docs", "--search", "the", "-o", "jsonl")
    assert len(many.json_lines()) == FOUND_SHOWN_MAX and "add a word" in many.err


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["tutorail"], EXIT_NOT_FOUND, "is tutorial meant?"),
        (["../SECURITY"], EXIT_NOT_FOUND, "no page '../SECURITY'"),
        (["--search", "qqxxqq"], EXIT_NOT_FOUND, "no section has all of: qqxxqq"),
        (["--search", " "], EXIT_NOT_FOUND, "no section"),
        (["tutorial", "--list"], EXIT_USAGE, "three commands"),
    ],
)
def test_what_is_not_there_is_named(pymq: Pymq, arguments: list[str], code: int, said: str) -> None:
    done = pymq("docs", *arguments)
    assert (done.code, done.out) == (code, "") and said in done.err


def test_lines_of_code_are_no_headings(tmp_path: Path) -> None:
    page = tmp_path / "a.md"
    page.write_text("# A\n\ntext\n```sh\n# not a heading\n```\n## B\nword\n")
    files = {"a": page}
    assert [(one.heading, one.line) for one in sections(read_page(files, "a"))] == [("A", 1), ("B", 7)]
    assert search(files, "NOT heading") == [{"page": "a", "section": "A", "line": 5, "text": "# not a heading"}]
    assert search(files, "word b")[0]["section"] == "B"
    with pytest.raises(NotFoundError):
        read_page(files, "zzz")
