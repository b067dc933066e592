"""``pymq conf``: every example, written where nothing is, and never over a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from pymq.cli.common.shipped import example_files
from pymq.cli.conf.command import ABOUT
from pymq.errors import EXIT_NOT_FOUND, EXIT_OK, EXIT_USAGE
from tests.cli.conftest import Pymq
from tests.cli.schemas import assert_documented

ROOT = Path(__file__).parents[3]


def test_the_list_has_every_example(pymq: Pymq) -> None:
    assert set(ABOUT) == {path.name for path in (ROOT / "conf").iterdir()}
    records = pymq("conf", "-o", "json").json()
    assert_documented("conf", records[0])
    assert sum(record["files"] for record in records) == len(example_files())


@pytest.mark.parametrize("name", ABOUT)
def test_an_example_is_written_as_it_is_and_once(pymq: Pymq, tmp_path: Path, name: str) -> None:
    done = pymq("conf", name, "--to", str(tmp_path / "new"), "-o", "json")
    assert done.code == EXIT_OK
    written = {Path(record["file"]).relative_to(tmp_path / "new"): Path(record["file"]) for record in done.json()}
    assert written
    for place, path in written.items():
        assert path.read_bytes() == (ROOT / "conf" / place).read_bytes()
    path.write_text("mine")
    again = pymq("conf", name, "--to", str(tmp_path / "new"))
    assert again.code == EXIT_USAGE and "is there already" in again.err
    assert path.read_text() == "mine"
    assert pymq("conf", name, "--to", str(tmp_path / "new"), "--force").code == EXIT_OK
    assert path.read_bytes() == (ROOT / "conf" / place).read_bytes()


def test_one_file_is_printed(pymq: Pymq) -> None:
    assert pymq("conf", "conf/acl/inner.yml", "--print").code == EXIT_OK
    several = pymq("conf", "acl", "--print")
    assert several.code == EXIT_USAGE and "acl has 2 files" in several.err


@pytest.mark.parametrize("name", ["../pyproject.toml", "/etc/passwd", "", "conf/", "x" * 1000])
def test_a_name_that_is_no_example_is_refused(pymq: Pymq, tmp_path: Path, name: str) -> None:
    done = pymq("conf", name, "--to", str(tmp_path))
    assert done.code == EXIT_NOT_FOUND and "no example" in done.err and len(done.err) < 200
    assert list(tmp_path.glob("new*")) == []


def test_a_place_that_can_t_be_written_is_named(pymq: Pymq, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = pymq("conf", "broker.conf", "--to", str(tmp_path / "file"))
    assert done.code == EXIT_USAGE and "can't be written: " in done.err and "--to" in done.err
