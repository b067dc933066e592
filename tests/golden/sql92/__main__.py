"""Regenerates corpus.jsonl.zst with the real classes: ``python -m tests.golden.sql92``. Needs java and Maven."""

from __future__ import annotations

import base64
import subprocess
from pathlib import Path

from tests.golden.sql92.corpus import REFUSED, Corpus, save_corpus
from tests.golden.sql92.generate import expressions, messages
from tests.interop.support.maven import class_path


def make() -> Corpus:
    """Evaluate every expression with every message."""
    asked, given = expressions(), messages()
    lines = [f"P {_packed(message)}" for message in given] + [f"E {_packed(text)}" for text in asked]
    command = ["java", "-cp", class_path("server-5.3.3"), str(Path(__file__).with_name("Make.java"))]
    done = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, check=True)
    answers = done.stdout.split("\n")[:-1]
    assert len(answers) == len(asked), done.stderr
    return Corpus(given, dict(zip(asked, answers, strict=True)))


def _packed(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


if __name__ == "__main__":
    corpus = make()
    save_corpus(corpus)
    refused = sum(answer == REFUSED for answer in corpus.answers.values())
    letters = "".join(answer for answer in corpus.answers.values() if answer != REFUSED)
    counts = ", ".join(f"{letters.count(letter)} {letter}" for letter in "TFNX")
    print(f"{len(corpus.answers)} expressions, {refused} refused, {len(letters)} answers: {counts}")
