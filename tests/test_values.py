"""F-4: a wrong argument is named and refused before anything is written."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiptlab.errors import WrongArgument
from receiptlab.values import MAX_INTEGER, canonical, hex_digest, integer, sha256, text, utf8

A = "a" * 64


@pytest.mark.parametrize(
    "value", ["a", "k" * 128, "Zürich", "a b", "名前", "a\u00a0b", "\U0001f4a1", "a\u200db"]
)
def test_good_texts_pass(value):
    assert text("name", value) == value


@pytest.mark.parametrize(
    ("check", "value", "error"),
    [
        (text, "", ValueError),
        (text, "k" * 129, ValueError),
        (text, "a\nb", ValueError),
        (text, "a\x00b", ValueError),
        (text, "\x7f", ValueError),
        (text, "\x85", ValueError),
        (text, "\ud800", ValueError),
        (text, "a\udfff", ValueError),
        (text, None, TypeError),
        (text, b"bytes", TypeError),
        (text, 7, TypeError),
        (integer, True, TypeError),
        (integer, 1.0, TypeError),
        (integer, "1", TypeError),
        (integer, None, TypeError),
        (integer, -1, ValueError),
        (integer, MAX_INTEGER + 1, ValueError),
        (hex_digest, "a" * 63, ValueError),
        (hex_digest, "a" * 65, ValueError),
        (hex_digest, "A" * 64, ValueError),
        (hex_digest, "g" * 64, ValueError),
        (hex_digest, A + "\n", ValueError),
        (hex_digest, "\u0661" * 64, ValueError),
        (hex_digest, 1, TypeError),
        (hex_digest, A.encode(), TypeError),
    ],
)
def test_wrong_values_name_the_argument(check, value, error):
    with pytest.raises(error, match=r"^the_name ") as refused:
        check("the_name", value)
    assert isinstance(refused.value, WrongArgument)
    assert refused.value.argument == "the_name"


def test_the_ends_of_the_range_pass():
    assert integer("n", 0) == 0
    assert integer("n", MAX_INTEGER) == MAX_INTEGER
    assert hex_digest("d", A) == A


def test_canonical_text_is_sorted_compact_ascii():
    assert canonical({"b": "ü", "a": 1}) == '{"a":1,"b":"\\u00fc"}'


@given(st.dictionaries(st.from_regex(r"[a-z_]{1,9}", fullmatch=True), st.one_of(st.text(), st.integers())))
def test_canonical_text_is_what_the_json_library_writes(fields):
    assert canonical(fields) == json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def test_sha256_of_a_known_text():
    # The empty message, FIPS 180-4 examples.
    assert sha256("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


class Text(str):
    pass


class Number(int):
    pass


@pytest.mark.parametrize(
    ("check", "value"), [(text, Text("a")), (hex_digest, Text(A)), (utf8, Text("a")), (integer, Number(1))]
)
def test_subclasses_are_wrong_types(check, value):
    """One could print as another text, and be answered from another's receipt."""
    with pytest.raises(TypeError, match=r"^name must be"):
        check("name", value)
