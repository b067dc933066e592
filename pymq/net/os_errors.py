"""Texts for connections that the system ended or did not open."""

from __future__ import annotations

import os


def os_error_text(error: Exception) -> str:
    """Return the system's text, "Connection refused". Event loops put a number before it, or use their own text."""
    number = getattr(error, "errno", None)
    # Negative numbers are the name resolver's; the error itself has their text.
    return (
        os.strerror(number) if isinstance(number, int) and number > 0 else getattr(error, "strerror", "") or str(error)
    )
