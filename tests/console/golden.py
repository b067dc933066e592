"""Each state of a page that a test renders is compared with the HTML kept for it in the directory ``golden/``.

``PYMQ_GOLDEN=write`` keeps what is rendered now: read the difference before it is committed.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

WRITES: Final = os.environ.get("PYMQ_GOLDEN") == "write"
WHOLE_LENGTH_MAX: Final = 40_000  # of a page that is kept as it is; pages of large bodies are longer
BEGIN_LENGTH: Final = 6_000
END_LENGTH: Final = 4_000
RENDERED: Final[list[str]] = []  # the pages of the running test


def compared(request: pytest.FixtureRequest, directory: Path) -> Iterator[None]:
    """Let a test run, and compare what it has rendered once it has passed."""
    RENDERED.clear()
    failed_before = request.session.testsfailed
    yield
    if not RENDERED or request.session.testsfailed != failed_before:
        return
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", f"{request.module.__name__.rpartition('.')[2]}.{request.node.name}")
    file = directory / f"{name[:150]}.html"
    rendered = "\n".join(_what_people_see(html) for html in RENDERED)
    if WRITES:
        directory.mkdir(exist_ok=True)
        file.write_bytes(rendered.encode())
        return
    kept = file.read_bytes().decode() if file.exists() else ""
    assert rendered == kept, f"{file.name} is another page now: PYMQ_GOLDEN=write keeps it, after a look at it"


def _what_people_see(html: str) -> str:
    """Return title and main part of a page, without the hashed names of its files."""
    title = re.search(r"<title>(.*?)</title>", html, re.DOTALL)
    main = re.search(r"<main.*</main>", html, re.DOTALL)
    return f"{title[1] if title else ''}\n{_short(main[0] if main else html)}\n"


def _short(text: str) -> str:
    """Return a long text without its middle, of which the digest stands there."""
    if len(text) <= WHOLE_LENGTH_MAX:
        return text
    left_out = text[BEGIN_LENGTH:-END_LENGTH]
    digest = hashlib.sha256(left_out.encode()).hexdigest()
    return f"{text[:BEGIN_LENGTH]}\n[{len(left_out)} characters with the digest {digest}]\n{text[-END_LENGTH:]}"
