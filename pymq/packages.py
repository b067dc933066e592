"""How people install PyMQ and its extras, for the texts of errors.

It is not on a package index yet: the commands are for a checkout. ``scripts/published`` changes SOURCE and every other
text that installs, once, before the first release.
"""

from __future__ import annotations

from typing import Final

SOURCE: Final = "."  # what pip installs: a checkout's folder, or the name on the index
_IN_A_CHECKOUT: Final = "."


def pip_install(extra: str) -> str:
    """Return the command that installs PyMQ with one of its extras."""
    where = " in PyMQ's checkout" if SOURCE == _IN_A_CHECKOUT else ""
    return f"pip install '{SOURCE}[{extra}]'{where}"
