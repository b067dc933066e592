"""Every block of the pages that a newcomer reads first works as printed, in the page's order, in an empty folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.blocks import NOT_RUN, OUTPUT, RUN, RUNS_ON, blocks_of, matches
from tests.docs.reader import ROOT, Reader

PAGES = ("README.md", "docs/tutorial.md", "docs/testing-your-code.md", "docs/grpc.md", "docs/spark.md")


def page(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", PAGES)
def test_the_page_works_as_printed(name: str, tmp_path: Path) -> None:
    blocks = blocks_of(page(name))
    with Reader(tmp_path) as reader:
        done = reader.follow(blocks)
    assert len(done) >= 2
    for block in blocks:
        print(f"{name}:{block.line}: {block.mode}{f': {block.reason}' if block.reason else ''}")


def test_a_page_says_what_is_special_about_a_block() -> None:
    text = (
        "a\n<!-- runs on -->\n```sh\nserve\n```\n\n```text\nready\n```\n<!-- not run: no web -->\n```sh\nget\n```\n"
        "```python\nx\n```\n"
    )
    assert [(block.line, block.mode, block.reason) for block in blocks_of(text)] == [
        (3, RUNS_ON, ""),
        (7, OUTPUT, ""),
        (11, NOT_RUN, "no web"),
        (14, RUN, ""),
    ]


@pytest.mark.parametrize(
    ("text", "said"), [("```perl\nx\n```\n", "nobody knows"), ("<!-- not run -->\n```sh\nx\n```\n", "does not say why")]
)
def test_a_block_that_nobody_can_judge_is_refused(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        blocks_of(text)


@pytest.mark.parametrize(
    ("shown", "printed", "is_there"),
    [
        ("sent … broker-a/…", "x\nsent Orders broker-a/0@0 7F\n", True),
        ("a\nb", "a\nx\nb\n", True),
        ("b\na", "a\nb\n", False),
        ("a", "ab\n", False),
        ("a.", "ab\n", False),
        ("", "anything", True),
    ],
)
def test_what_a_page_shows_is_looked_for_line_by_line(shown: str, printed: str, is_there: bool) -> None:
    assert matches(shown, printed) is is_there
