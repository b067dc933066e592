"""PyMQ gives every answer that Apache RocketMQ 5.3.3's own classes gave for tests/golden/sql92."""

from typing import Any

from pymq.errors import ExpressionError
from pymq.filter.compiler import compile_condition
from pymq.filter.parser import parse
from pymq.filter.raw_properties import SEPARATOR
from pymq.model.properties import decode_properties
from tests.filter.oracle import Thrown, evaluate
from tests.golden.sql92.corpus import REFUSED, load_corpus
from tests.golden.sql92.generate import BY_HAND

LETTERS = {True: "T", False: "F", None: "N"}
PAIR_COUNT_MIN = 20_000
ORACLE_STEP = 7  # the oracle is slow: it gets every seventh message


def test_compiled_expressions_answer_as_apache_does() -> None:
    corpus = load_corpus()
    sources = [SEPARATOR + message.encode() for message in corpus.messages]
    wrong = {}
    for text, expected in corpus.answers.items():
        answers = _answers(text, sources)
        if answers != expected:
            wrong[text] = (answers, expected)
    assert not wrong


def test_the_oracle_answers_as_apache_does() -> None:
    corpus = load_corpus()
    properties = [decode_properties(message.encode()) for message in corpus.messages[::ORACLE_STEP]]
    for text, expected in corpus.answers.items():
        if expected == REFUSED:
            continue
        tree = parse(text).tree
        assert "".join(_oracle_letter(tree, one) for one in properties) == expected[::ORACLE_STEP], text


def test_the_corpus_is_large_and_has_all_kinds_of_answers() -> None:
    corpus = load_corpus()
    assert corpus.answers.keys() >= set(BY_HAND)
    letters = "".join(answers for answers in corpus.answers.values() if answers != REFUSED)
    assert len(letters) >= PAIR_COUNT_MIN
    for letter in "TFNX":
        assert letters.count(letter) > PAIR_COUNT_MIN / 2


def _answers(text: str, sources: list[bytes]) -> str:
    try:
        test = compile_condition(parse(text).tree)
    except ExpressionError:
        return REFUSED
    letters = []
    for source in sources:
        try:
            letters.append(LETTERS[test(source)])
        except ValueError:
            letters.append("X")
    return "".join(letters)


def _oracle_letter(tree: Any, properties: Any) -> str:
    try:
        return LETTERS[evaluate(tree, properties)]
    except Thrown:
        return "X"
