"""A checkpoint directory belongs to one pipeline and its sources."""

from __future__ import annotations

from pathlib import Path

import pytest

from pymq.errors import UnsafeError
from pymq.pipeline.checkpoints import MARK, claim
from pymq.pipeline.model import Pipeline, Sink, Source, Step


def pipeline(directory: Path, name: str = "one", topic: str = "A", steps: tuple[Step, ...] = ()) -> Pipeline:
    source, sink = Source(name="s", topic=topic), Sink(table="s", topic="B")
    return Pipeline(name=name, checkpoint=str(directory), source=[source], sink=[sink], step=list(steps))


def test_the_same_pipeline_goes_on_also_with_other_steps(tmp_path: Path) -> None:
    directory = tmp_path / "new" / "cp"
    claim(pipeline(directory))
    claim(pipeline(directory))
    claim(pipeline(directory, steps=(Step(name="t", sql="SELECT 1"),)))
    assert [path.name for path in directory.iterdir()] == [MARK]


def test_others_are_refused(tmp_path: Path) -> None:
    claim(pipeline(tmp_path))
    with pytest.raises(UnsafeError, match="is of the pipeline one, not of two: name another directory"):
        claim(pipeline(tmp_path, name="two"))
    with pytest.raises(UnsafeError, match=r"has offsets of source s as .*'A'.*, and the source is .*'B'.* now"):
        claim(pipeline(tmp_path, topic="B"))
    (tmp_path / MARK).write_text("{", encoding="utf-8")
    with pytest.raises(UnsafeError, match=r"pipeline.json is damaged: take another checkpoint directory"):
        claim(pipeline(tmp_path))
