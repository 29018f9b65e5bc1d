"""Mistakes in settings raise when a compressor is created, they are not swallowed."""

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agora import Budget, Compressor, load_scorer
from agora.errors import AgoraError, BundleError, SettingError

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"edits": "banana"}, "edits is 'banana'; it must be by_price, free, every_call or never"),
    ({"edits": "every_cal"}, "did you mean every_call?"),
    ({"edits": None}, "edits is None"),
    ({"scorer": "bm25"}, r"agora.load_scorer\(name\) returns one \(did you mean bm25"),
    ({"scorer": None}, "scorer is None; it must be an object with a score method; agora.load"),
    ({"budget": 0.25}, r"budget is 0.25; it must be a Budget"),
    ({"k_recent": -1}, "k_recent is -1; it must be a whole number, 0 or more"),
    ({"k_recent": 1.5}, "k_recent is 1.5"),
    ({"min_tokens": -1}, "min_tokens is -1"),
    ({"max_cost_ratio": 0.98}, "max_cost_ratio is 0.98"),
    ({"max_cost_ratio": "none"}, "it must be a ratio to never editing, 1 or more, such as 1.05"),
    ({"forgetting": "much"}, "forgetting is 'much'; it must be a number, 0 or more"),
    ({"tools": ["look"]}, r'it must be names of tools with keep, changes or reads, such as {"read'),
    ({"tools": {3: "keep"}}, "tools is {3: 'keep'}"),
    ({"forgetting": -1}, "forgetting is -1"),
    ({"tools": {"look": "red"}}, r"it must be keep, changes or reads \(did you mean reads"),
    ({"sheet": "gpt-5"}, "sheet is 'gpt-5'; it must be a PriceSheet"),
    ({"counter": len}, "counter is .* it must be an object with a count method"),
]


@pytest.mark.parametrize(("settings", "sentence"), WRONG)
@pytest.mark.parametrize("strict", [False, True])
def test_a_setting_that_cannot_be_meant_is_told_when_the_compressor_is_made(
    settings: dict[str, Any], sentence: str, strict: bool
) -> None:
    with pytest.raises(SettingError, match=sentence) as caught:
        Compressor(strict=strict, **settings)

    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, AgoraError)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize(
    "wrong",
    [
        {"keep_ratio": 1.5},
        {"keep_ratio": "a quarter"},
        {"min_ratio": -0.1},
        {"limit": -1},
        {"limit": 0.25},
        {"unit": "words"},
        {"keep_ratio": 0.5, "limit": 10},
    ],
)
def test_a_budget_that_cannot_be_meant_is_a_value_error(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingError) as caught:
        Budget(**wrong)

    assert isinstance(caught.value, ValueError)


def test_the_preset_for_databases_keeps_more_and_takes_any_setting() -> None:
    preset = Compressor.for_databases(k_recent=3)

    assert preset.budget == Budget(keep_ratio=0.4)
    assert preset.k_recent == 3


@given(
    k_recent=st.integers(0, 10**6),
    min_tokens=st.integers(0, 10**9),
    forgetting=st.floats(0, 1_000),
)
def test_every_setting_within_its_range_is_taken(
    k_recent: int, min_tokens: int, forgetting: float
) -> None:
    made = Compressor(k_recent=k_recent, min_tokens=min_tokens, forgetting=forgetting)

    assert (made.k_recent, made.min_tokens, made.forgetting) == (k_recent, min_tokens, forgetting)


def test_the_library_and_its_loader_have_one_default() -> None:
    assert type(Compressor().scorer) is type(load_scorer())


def test_a_scorer_that_is_not_there_is_told_with_the_nearest_one() -> None:
    with pytest.raises(BundleError, match="did you mean bm25"):
        load_scorer("bn25")
