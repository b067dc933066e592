"""A standalone PyMQ for the admin calls."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pymq.testing.standalone import StandaloneProcess


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneProcess]:
    with StandaloneProcess(tmp_path_factory.mktemp("admin") / "data") as process:
        yield process
