"""The token that scrapers show, in a file that its owner alone can read."""

from __future__ import annotations

from typing import Final

from pymq.errors import ConfigError, UsageError
from pymq.security.private_file import read_private_file

TOKEN_LENGTH_MAX: Final = 1024


def read_token(path: str) -> str:
    """Return the token in a file; "" without a file. Raises ConfigError."""
    if not path:
        return ""
    try:
        token = read_private_file(path).decode("latin-1").strip()
    except UsageError as error:
        raise ConfigError(f"metricsTokenFile: {error}") from None
    if not 1 <= len(token) <= TOKEN_LENGTH_MAX or not all("!" <= each <= "~" for each in token):
        raise ConfigError(f"metricsTokenFile {path}: write 1 to {TOKEN_LENGTH_MAX} characters of ASCII without blanks")
    return token
