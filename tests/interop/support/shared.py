"""The servers that several files of tests share, by the fixture that gives them: each costs seconds of processor time.

They are for one process of several. Their tests come first, and the server ends after the last of them: an idle Apache
broker takes a twelfth of a core.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[3]
SHARED = ("apache", "cluster")
_FOLDER = "tests/interop/"
_ASKS = {name: re.compile(rf'\b{name}: [A-Z]|getfixturevalue\("{name}"\)') for name in SHARED}


@cache
def shared_server(file: str) -> str | None:
    """Return which of SHARED a file, named from the root of the checkout, uses; None for no or another file."""
    if not file.startswith(_FOLDER):
        return None
    text = (ROOT / file).read_text("utf-8")
    return next((name for name in SHARED if _ASKS[name].search(text)), None)
