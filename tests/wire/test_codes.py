"""Request and response codes: one meaning each, with the names of the Java client."""

from __future__ import annotations

import pytest

from pymq.wire.codes import LANGUAGE_CODES, LANGUAGES, RequestCode, ResponseCode, request_name
from tests.golden.frames import load_frames


@pytest.mark.parametrize("codes", [RequestCode, ResponseCode])
def test_no_number_means_two_things(codes: type) -> None:
    numbers = [value for name, value in vars(codes).items() if name.isupper()]
    assert len(numbers) > 20 and len(set(numbers)) == len(numbers)


def test_names_are_those_of_the_captured_requests() -> None:
    named = {frame.request_code: frame.request_name for frame in load_frames()}
    known = {code: name for code, name in named.items() if not request_name(code).startswith("code ")}
    assert len(known) > 30
    assert {code: request_name(code) for code in known} == known


@pytest.mark.parametrize("code", [0, -1, 999, 200999])
def test_a_number_without_a_name_is_named_by_it(code: int) -> None:
    assert request_name(code) == f"code {code}"


def test_languages_are_their_places_in_javas_enum() -> None:
    assert [LANGUAGE_CODES[name] for name in LANGUAGES] == list(range(len(LANGUAGES)))
    assert (LANGUAGE_CODES["JAVA"], LANGUAGE_CODES["CPP"], LANGUAGE_CODES["PYTHON"], LANGUAGE_CODES["GO"]) == (
        0,
        1,
        3,
        9,
    )
