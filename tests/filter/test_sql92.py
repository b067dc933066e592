"""Expressions and refusals are cached, and the parser is imported only when it is needed."""

import subprocess
import sys

import pytest

from pymq.errors import EXIT_USAGE, ExpressionError
from pymq.filter.sql92 import compile_sql


def test_the_same_text_is_compiled_once() -> None:
    assert compile_sql("a = 5") is compile_sql("a = 5")


def test_a_wrong_text_is_refused_each_time() -> None:
    errors = []
    for _ in range(2):
        with pytest.raises(ExpressionError) as caught:
            compile_sql("a = #")
        errors.append(caught.value)
    assert errors[0] is not errors[1] and str(errors[0]) == str(errors[1])
    assert errors[0].column == 5 and errors[0].exit_code == EXIT_USAGE


def test_evaluation_over_a_mapping() -> None:
    expression = compile_sql("color = 'red' AND size > 5")
    assert expression.evaluate({"color": "red", "size": "6"}) is True
    assert expression.evaluate({"color": "blue"}) is False
    assert expression.evaluate({"color": "red"}) is None
    assert expression.evaluate({"color": "red", "size": ""}) is None
    with pytest.raises(ValueError, match="number"):
        expression.evaluate({"color": "red", "size": "large"})


def test_ignored_text_is_reported() -> None:
    assert compile_sql("a = 5").ignored_from is None
    assert compile_sql("a = 5 b = 6").ignored_from == 7


def test_lark_is_imported_with_the_first_expression() -> None:
    program = (
        "import sys, pymq.filter.sql92 as s; assert 'lark' not in sys.modules; s.compile_sql('a=1'); "
        "assert 'lark' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
