import json
from itertools import pairwise
from pathlib import Path
from typing import TypedDict

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agora import EstimatedTokens, TokenCounter
from agora.core import Characters

# Private: the table behind the estimate, bit by bit.
from agora.core.tokens import (
    _BIT,
    _BLOCK,
    _BYTE,
    _CODES,
    _SCRIPT,
    _SCRIPTS,
    _UNIT,
    _bits,
    _script_weight,
)


class Sample(TypedDict):
    """A text of our own, and what each tokenizer made of it when the estimate was fitted."""

    text: str
    o200k: int
    cl100k: int
    tekken: int


SAMPLES: dict[str, Sample] = json.loads(
    Path(__file__).with_name("samples_tokens.json").read_text(encoding="utf-8")
)
REQUIRED = (
    *("english", "agent_talk", "python", "typescript", "c", "chinese", "japanese", "emoji"),
    *("json_compact", "json_spaced", "json_pretty", "json_pretty4", "json_tools"),
)
ASCII = tuple(kind for kind, sample in SAMPLES.items() if sample["text"].isascii())
# Where tekken is furthest from o200k it spends a token on every digit (first row) or more tokens
# on the script than o200k does (second row), so one estimate cannot be near both.
FAR_FROM_TEKKEN = (
    *("csv", "hex", "base64", "json_compact", "json_spaced", "table"),
    *("chinese", "emoji", "hindi"),
)

estimate = EstimatedTokens().count

any_text = st.one_of(
    st.text(),
    st.text(st.characters(exclude_categories=())),
    st.text('aB1 _\n."é漢🙂\ud800', max_size=200),
    st.sampled_from([sample["text"] for sample in SAMPLES.values()]),
)
counters = st.sampled_from([EstimatedTokens(), Characters()])


def relative_error(text: str, true: int) -> float:
    return estimate(text) / true - 1


# What holds for every text


@given(text=any_text, counter=counters)
def test_only_no_text_at_all_counts_nothing(text: str, counter: TokenCounter) -> None:
    assert (counter.count(text) == 0) == (text == "")
    assert counter.count(text) >= 0


@given(before=any_text, text=any_text, after=any_text)
def test_a_text_never_counts_less_than_a_part_of_it(before: str, text: str, after: str) -> None:
    assert estimate(text) <= estimate(before + text + after)


def beyond_its_bytes(text: str) -> int:
    """Return the tokens that a text would count beyond its bytes, as digits next to capitals do."""
    raw = text.encode("utf-8", "surrogatepass")
    cost = _BIT * _bits(raw) + _BYTE * len(raw) + _SCRIPT * _script_weight(raw)
    return max(0, (cost + _UNIT // 2) // _UNIT - len(raw))


@given(first=any_text, second=any_text)
@example(first="00A0", second=" 000:")
@example(first="0A" * 50, second="0A" * 50)
@example(first="0", second="\u2000")
def test_two_texts_joined_count_what_they_count_apart_up_to_a_few_tokens(
    first: str, second: str
) -> None:
    apart = estimate(first) + estimate(second)
    cut_off = beyond_its_bytes(first) + beyond_its_bytes(second)

    assert apart - 4 <= estimate(first + second) <= apart + 1 + cut_off


@given(text=any_text)
def test_a_text_never_counts_more_tokens_than_it_has_bytes(text: str) -> None:
    assert estimate(text) <= len(text.encode("utf-8", "surrogatepass"))


def counted_one_by_one(raw: bytes) -> int:
    path = [0, *(_CODES[byte] for byte in raw), 0]
    changes = sum(((before ^ after) & 0x7F).bit_count() for before, after in pairwise(path))
    return changes + sum(code >> 7 for code in path)


@given(text=any_text)
def test_bits_and_scripts_are_counted_as_a_loop_over_the_bytes_would(text: str) -> None:
    raw = text.encode("utf-8", "surrogatepass")

    assert _bits(raw) == counted_one_by_one(raw)
    assert _script_weight(raw) == sum(_SCRIPTS[byte] for byte in raw)


# Long texts


@pytest.mark.parametrize("kind", ["english", "csv", "base64", "emoji"])
def test_blocks_do_not_show_in_the_count(kind: str) -> None:
    raw = SAMPLES[kind]["text"].encode()
    long = (raw * (2 * _BLOCK // len(raw) + 1))[: 2 * _BLOCK + 7]

    assert _bits(long) == counted_one_by_one(long)


@pytest.mark.parametrize("kind", SAMPLES)
def test_the_count_grows_in_step_with_the_text(kind: str) -> None:
    text = SAMPLES[kind]["text"]

    assert estimate(text * 200) == pytest.approx(200 * estimate(text), rel=0.02)


@pytest.mark.parametrize("character", ["a", "Z", "7", " ", "\n", "_", "{", "é", "漢", "🙂"])
def test_a_line_of_eight_mebibytes_counts_twice_its_half(character: str) -> None:
    line = character * (8 * 2**20 // len(character.encode()))

    whole, half = estimate(line), estimate(line[: len(line) // 2])

    assert 2 * half - 4 <= whole <= 2 * half + 1
    assert whole > 100_000


# Against tokenizers


@pytest.mark.parametrize("kind", SAMPLES)
def test_the_estimate_is_within_15_percent_of_o200k(kind: str) -> None:
    sample = SAMPLES[kind]

    assert abs(relative_error(sample["text"], sample["o200k"])) < 0.15


@pytest.mark.parametrize("kind", ASCII)
def test_the_estimate_of_ascii_text_is_within_15_percent_of_cl100k(kind: str) -> None:
    sample = SAMPLES[kind]

    assert abs(relative_error(sample["text"], sample["cl100k"])) < 0.15


@pytest.mark.parametrize("kind", sorted(set(SAMPLES) - set(FAR_FROM_TEKKEN)))
def test_the_estimate_is_within_15_percent_of_tekken_where_tekken_is_near_o200k(kind: str) -> None:
    sample = SAMPLES[kind]

    assert abs(relative_error(sample["text"], sample["tekken"])) < 0.15


@pytest.mark.parametrize("kind", FAR_FROM_TEKKEN)
def test_the_estimate_is_never_above_tekken_where_tekken_is_far_from_o200k(kind: str) -> None:
    sample = SAMPLES[kind]

    assert sample["tekken"] > 1.05 * sample["o200k"]
    assert -0.45 < relative_error(sample["text"], sample["tekken"]) < 0


def test_the_recorded_tekken_counts_are_what_tekken_counts() -> None:
    mistral_common = pytest.importorskip(
        "mistral_common", reason="mistral-common, which brings the tekken vocabulary, is absent"
    )
    from mistral_common.tokens.tokenizers.tekken import Tekkenizer

    vocabulary = Path(mistral_common.__file__).parent / "data" / "tekken_240911.json"
    if not vocabulary.is_file():
        pytest.skip("this mistral-common brings no tekken_240911.json")
    tekken = Tekkenizer.from_file(str(vocabulary))

    for kind, sample in SAMPLES.items():
        counted = len(tekken.encode(sample["text"], bos=False, eos=False))
        assert (kind, counted) == (kind, sample["tekken"])


def test_every_kind_of_text_that_was_asked_for_has_a_sample() -> None:
    assert set(REQUIRED) <= set(SAMPLES)
    assert all(len(sample["text"]) > 300 for sample in SAMPLES.values())


def test_the_estimate_is_the_same_integer_on_every_machine() -> None:
    counted = {kind: estimate(SAMPLES[kind]["text"]) for kind in ("english", "python", "emoji")}

    assert counted == {"english": 262, "python": 506, "emoji": 209}


@pytest.mark.parametrize("pair", ["中国", "一鿐", "가힣", "あン", "กฮ", "αω", "ая", "\ue0a0\uf120"])
def test_characters_of_one_script_count_alike(pair: str) -> None:
    first, last = (EstimatedTokens().count(character * 64) for character in pair)

    assert first == last
