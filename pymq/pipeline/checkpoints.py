"""A pipeline's mark in its checkpoint directory: no other pipeline continues there."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from pymq.errors import UnsafeError
from pymq.pipeline.model import Pipeline

MARK = "pipeline.json"


def directory_of(pipeline: Pipeline) -> Path:
    """Return the checkpoint directory; a path that isn't absolute begins at the working directory."""
    return Path(pipeline.checkpoint).absolute()


def claim(pipeline: Pipeline) -> None:
    """Write the mark, or check the one that is there.

    Raises UnsafeError when the directory is another pipeline's, or when this one has other sources than before: the
    offsets there would then be of other topics.
    """
    directory = directory_of(pipeline)
    mark = directory / MARK
    ours = _mark(pipeline)
    try:
        theirs = json.loads(mark.read_text(encoding="utf-8"))
    except FileNotFoundError:
        _write(mark, ours)
        return
    except ValueError:
        raise UnsafeError(f"{mark} is damaged: take another checkpoint directory, or remove this one") from None
    if theirs["name"] != ours["name"]:
        raise UnsafeError(
            f"checkpoint {directory} is of the pipeline {theirs['name']}, not of {ours['name']}: name another directory"
        )
    for name, read in theirs["sources"].items():
        if ours["sources"].get(name) != read:
            now = ours["sources"].get(name, "gone")
            raise UnsafeError(
                f"checkpoint {directory} has offsets of source {name} as {read}, and the source is {now} now: "
                "name another directory to begin again"
            )


def _mark(pipeline: Pipeline) -> dict[str, Any]:
    return {
        "name": pipeline.name,
        "sources": {
            source.name: {"topics": source.topics} if source.path is None else {"path": source.path}
            for source in pipeline.source
        },
    }


def _write(mark: Path, content: dict[str, Any]) -> None:
    mark.parent.mkdir(parents=True, exist_ok=True)
    staged = mark.with_suffix(f".{os.getpid()}")
    with staged.open("w", encoding="utf-8") as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
    staged.replace(mark)
