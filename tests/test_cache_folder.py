"""Where PyMQ keeps what it can make again."""

from __future__ import annotations

from pathlib import Path

import pytest

from pymq.cache_folder import cache_folder


def test_the_folder_is_below_the_users_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder({"XDG_CACHE_HOME": "/var/cache/me"}) == Path("/var/cache/me/pymq")
    for environ in ({}, {"XDG_CACHE_HOME": ""}, {"XDG_CACHE_HOME": "relative"}):
        assert cache_folder(environ) == tmp_path / ".cache" / "pymq"
