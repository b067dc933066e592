"""What is said of a connection that the system ended or did not open."""

from __future__ import annotations

import os


def os_error_text(error: Exception) -> str:
    """The system's own words: "Connection refused". Event loops put a number before them, or texts of their own."""
    number = getattr(error, "errno", None)
    # Negative ones are the name resolver's, whose words the error has.
    return (
        os.strerror(number) if isinstance(number, int) and number > 0 else getattr(error, "strerror", "") or str(error)
    )
