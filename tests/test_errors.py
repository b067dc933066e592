"""One tree of errors: exit codes as documented, texts that name who refused what."""

from __future__ import annotations

import inspect

import pytest

from pymq import errors
from pymq.errors import CorruptRecordError, ProtocolViolation, PymqError, Refusal, RefusedError


def test_every_class_is_in_the_tree_and_says_when_it_is_raised() -> None:
    classes = [cls for _, cls in inspect.getmembers(errors, inspect.isclass) if cls.__module__ == errors.__name__]
    assert len(classes) > 8
    assert not [cls for cls in classes if not issubclass(cls, PymqError) or not cls.__doc__]


@pytest.mark.parametrize(
    ("cls", "code"),
    [
        (errors.PymqError, 1),
        (errors.UsageError, 2),
        (errors.ConfigError, 2),
        (errors.NotFoundError, 3),
        (errors.UnreachableError, 4),
        (errors.RequestTimeoutError, 4),
        (errors.RefusedError, 5),
        (errors.Refusal, 5),
        (errors.PartialError, 6),
        (errors.ProtocolViolation, 1),
        (errors.StoreUnavailableError, 1),
    ],
)
def test_exit_codes(cls: type[PymqError], code: int) -> None:
    assert cls.exit_code == code


@pytest.mark.parametrize(
    ("remark", "address", "text"),
    [
        ("no", "h:1", "h:1: refused with code 17: no"),
        ("no", "", "refused with code 17: no"),
        (None, "h:1", "h:1: refused with code 17: no remark"),
        ("", "", "refused with code 17: no remark"),
    ],
)
def test_a_servers_refusal_names_code_remark_and_server(remark: str | None, address: str, text: str) -> None:
    error = RefusedError(17, remark, address)
    assert str(error) == text
    assert (error.code, error.remark, error.address) == (17, remark or "", address)


def test_a_partial_result_names_where_it_took_effect_and_where_not() -> None:
    failed = {"b:2": errors.UnreachableError("nothing answers"), "c:3": errors.UnreachableError("silence")}
    error = errors.PartialError(["a:1"], failed)
    assert str(error).startswith("done at a:1, but not at b:2: nothing answers; c:3: silence: ")
    assert (error.done, error.failed) == (["a:1"], failed)


def test_what_errors_carry_beside_their_text() -> None:
    refusal = Refusal(13, "too large")
    assert (refusal.code, refusal.remark, str(refusal)) == (13, "too large", "too large")
    violation = ProtocolViolation("frame-length", "a frame of 5 GB")
    assert (violation.reason, str(violation)) == ("frame-length", "a frame of 5 GB")
    corrupt = CorruptRecordError(4096, "no message magic")
    assert (corrupt.physical_offset, str(corrupt)) == (4096, "no message magic")
