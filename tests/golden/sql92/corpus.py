"""Reads corpus.jsonl.zst: Apache RocketMQ 5.3.3's answer to each expression for each message."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import NamedTuple

import zstandard

CORPUS_FILE = Path(__file__).with_name("corpus.jsonl.zst")
REFUSED = "E"


class Corpus(NamedTuple):
    """``answers``: expression -> ``E`` (does not compile) or one letter a message: T, F, N (null), X (it throws)."""

    messages: list[str]
    answers: dict[str, str]


@cache
def load_corpus() -> Corpus:
    """Read the whole corpus."""
    lines = zstandard.decompress(CORPUS_FILE.read_bytes()).decode().splitlines()
    return Corpus(json.loads(lines[0])["messages"], dict(map(json.loads, lines[1:])))


def save_corpus(corpus: Corpus) -> None:
    """Write the file: a line with the messages, then a line for each expression."""
    rows = [json.dumps({"messages": corpus.messages})] + [json.dumps(row) for row in corpus.answers.items()]
    CORPUS_FILE.write_bytes(zstandard.ZstdCompressor(level=19).compress("\n".join(rows).encode()))
