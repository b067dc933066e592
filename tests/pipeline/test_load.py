"""A pipeline's file: each thing that can be wrong has its line and the next step in the text."""

from __future__ import annotations

from pathlib import Path

import pytest

from pymq.errors import NotFoundError
from pymq.pipeline.load import FILE_BYTES_MAX, PipelineFile, PipelineFileError, read_pipeline

ROOT = Path(__file__).resolve().parents[2]
GOOD = """\
name = "sessions"
checkpoint = "./cp"
trigger = "10 seconds"

[[source]]
name = "events"
topic = "events"
body = "json"
fields = "user string, at timestamp"
watermark = "at 10 minutes"

[[step]]
name = "sums"
sql = "SELECT user FROM events"

[[step]]
name = "more"
sql = "SELECT * FROM sums"

[[sink]]
from = "more"
topic = "out"
key = "user"
"""


def read(text: str) -> PipelineFile:
    return PipelineFile(Path("p.toml"), text)


def test_a_right_file() -> None:
    pipeline = read(GOOD).pipeline
    assert [source.topics for source in pipeline.source] == [["events"]]
    assert [step.name for step in pipeline.step] == ["sums", "more"]
    assert (pipeline.sink[0].table, pipeline.sink[0].label) == ("more", "more")
    assert read(GOOD).changed({"master": "local[7]"}).pipeline.master == "local[7]"


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('"sessions"', '"9s"', "p.toml:1: name is '9s': write 1 to 64 letters"),
        ('name = "sessions"', "", "p.toml:1: the key name is missing"),
        ("name =", "name", "p.toml:1: not TOML: "),
        ('"./cp"', "3", "p.toml:2: checkpoint: expected `str`, got `int`"),
        ('"./cp"', '"s3a://b/c"', "p.toml:2: checkpoint is a URL: name a directory"),
        ('"10 seconds"', '"soon"', 'p.toml:3: trigger is \'soon\': write "10 seconds" or "available-now"'),
        ("[[source]]", "[[sauce]]", "p.toml:5: unknown key sauce: did you mean source?"),
        ('topic = "events"', "", "p.toml:5: source events needs either topic or path"),
        ('topic = "events"', 'topic = "a"\npath = "b"', "p.toml:7: source events needs either topic or path"),
        ('"json"', '"jason"', "p.toml:8: source.0.body: "),
        ('fields = "user string, at timestamp"', "", 'p.toml:5: source events has body = "json": name the fields'),
        ('body = "json"', "", "p.toml:9: source events has fields"),
        ('"at 10 minutes"', '"10 minutes"', "p.toml:10: watermark is '10 minutes': write a column and a time"),
        ("watermark", "watermrk", "p.toml:10: unknown key watermrk: did you mean watermark?"),
        ('"sums"\nsql', '"events"\nsql', "p.toml:13: the name events is used twice"),
        ("FROM events", "FROM more", "p.toml:14: step sums reads more, which comes after it: steps read"),
        ("FROM events", "FROM sums", "p.toml:14: step sums reads itself, which would be a cycle"),
        ('"SELECT * FROM sums"', '" "', "p.toml:18: step more has no query"),
        ('from = "more"', 'from = "mor"', "p.toml:21: no source or step is named mor: did you mean more?"),
        ('from = "more"', "", "p.toml:20: the key from is missing in [[sink]]"),
        ('topic = "out"', "", "p.toml:20: sink more needs either topic or path"),
        ('topic = "out"', 'path = "out"', "p.toml:23: sink more writes files, which have no key"),
        ('"out"', '"out"\nmode = "complete"', 'p.toml:23: sink more writes to a topic: mode is "append" or "update"'),
        ('"out"', '"out"\npartition_by = ["a"]', "p.toml:23: sink more writes to a topic: partition_by is for files"),
        ('"out"\nkey = "user"', '"out"\n[[sink]]\nfrom = "more"\npath = "x"', "p.toml:23: the name more is used twice"),
        (GOOD[GOOD.index("[[sink]]") :], "", "p.toml:1: [[sink]] is missing"),
        (GOOD[GOOD.index("[[sink]]") :], "[sink]\n", "p.toml:20: sink: expected `array`, got `object`"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(old: str, new: str, reason: str) -> None:
    assert old in GOOD
    with pytest.raises(PipelineFileError) as raised:
        read(GOOD.replace(old, new, 1))
    assert str(raised.value).startswith(reason)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    with pytest.raises(NotFoundError, match=r"p.toml can't be read: No such file"):
        read_pipeline(path)
    path.write_bytes(b'name = "a"\n# \xff')
    with pytest.raises(PipelineFileError, match=r"p.toml:2: not UTF-8"):
        read_pipeline(path)
    path.write_bytes(b"#" * FILE_BYTES_MAX)
    with pytest.raises(PipelineFileError, match="the key name is missing"):
        read_pipeline(path)
    path.write_bytes(b"#" * (FILE_BYTES_MAX + 1))
    with pytest.raises(PipelineFileError, match="more than 1048576 bytes"):
        read_pipeline(path)


@pytest.mark.parametrize("path", sorted((ROOT / "conf" / "pipelines").glob("*.toml")), ids=lambda path: path.name)
def test_the_examples_are_right(path: Path) -> None:
    assert read_pipeline(path).pipeline.sink
