"""The static files: named by their content, of known types, and small."""

from __future__ import annotations

import gzip

import pytest

from pymq.console.web.static_files import StaticFiles

TOGETHER_BYTES_MAX = 100_000
COMPRESSED_BYTES_MAX = 35_000


@pytest.fixture(scope="module")
def static() -> StaticFiles:
    return StaticFiles("pymq.console")


def test_a_file_is_found_by_the_name_with_its_hash_alone(static: StaticFiles) -> None:
    name = static.name_of("console.css")
    found = static.find(name)
    assert found is not None and found.kind == b"text/css; charset=utf-8" and found.content
    assert static.find("console.css") is None and static.find("../app.py") is None
    with pytest.raises(KeyError):
        static.name_of("app.py")


def test_all_files_together_are_small(static: StaticFiles) -> None:
    files = [static.find(static.name_of(name)) for name in static.sizes_bytes]
    contents = [file.content for file in files if file is not None]
    assert len(contents) >= 4 and sum(map(len, contents)) == sum(static.sizes_bytes.values())
    assert sum(map(len, contents)) <= TOGETHER_BYTES_MAX
    assert sum(len(gzip.compress(content)) for content in contents) <= COMPRESSED_BYTES_MAX
