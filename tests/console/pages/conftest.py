"""Each state of a page that a test renders is compared with the HTML kept for it in ``golden/``.

``PYMQ_GOLDEN=write`` keeps what is rendered now: read the difference before it is committed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.console.pages import visits

DIRECTORY: Final = Path(__file__).parent / "golden"
WRITES: Final = os.environ.get("PYMQ_GOLDEN") == "write"


def _what_people_see(html: str) -> str:
    """Return title and main part of a page, without the hashed names of its files."""
    title = re.search(r"<title>(.*?)</title>", html, re.DOTALL)
    main = re.search(r"<main.*</main>", html, re.DOTALL)
    return f"{title[1] if title else ''}\n{main[0] if main else html}\n"


@pytest.fixture(autouse=True)
def golden(request: pytest.FixtureRequest) -> Iterator[None]:
    """Compare what the test has rendered, once it has passed."""
    visits.RENDERED.clear()
    failed_before = request.session.testsfailed
    yield
    if not visits.RENDERED or request.session.testsfailed != failed_before:
        return
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", f"{request.module.__name__.rpartition('.')[2]}.{request.node.name}")
    file = DIRECTORY / f"{name[:150]}.html"
    rendered = "\n".join(_what_people_see(html) for html in visits.RENDERED)
    if WRITES:
        DIRECTORY.mkdir(exist_ok=True)
        file.write_text(rendered, encoding="utf-8")
        return
    kept = file.read_text(encoding="utf-8") if file.exists() else ""
    assert rendered == kept, f"{file.name} is another page now: PYMQ_GOLDEN=write keeps it, after a look at it"
