"""Tells URLs of object stores from paths; what needs a file system refuses them in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from pymq.errors import UsageError
from pymq.spark.places.directories import local_directory


@pytest.mark.parametrize("text", ["lake", "./lake", "/data/lake", "C:/lake", "a:b"])
def test_paths(text: str) -> None:
    assert local_directory("output", text) == Path(text)


@pytest.mark.parametrize("text", ["s3a://bucket/lake", "gs://b/l", "abfss://c@a.dfs.core.windows.net/l", "file:/lake"])
def test_urls(text: str) -> None:
    with pytest.raises(UsageError, match=f"^output {text} is a URL: name a directory of a file system"):
        local_directory("output", text)
