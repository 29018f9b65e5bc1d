"""What an answer says it cost, however it comes."""

import gzip
import itertools
import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agora.gateway.watching.bill import Billed
from agora.gateway.watching.usage import UsageReader
from harness.gateway.strict_upstream import _whole, events

ASKED = {"model": "m", "messages": "one two " * 1_000}


def read(raw: bytes, cuts: list[int], encoding: bytes = b"") -> Billed | None:
    reader = UsageReader(encoding)
    places = sorted({0, len(raw), *(cut % (len(raw) + 1) for cut in cuts)})
    for start, end in itertools.pairwise(places):
        reader.feed(raw[start:end])
    return reader.billed()


@pytest.mark.parametrize("format", ["openai", "responses", "anthropic"])
@pytest.mark.parametrize("encoding", [b"", b"gzip"])
@settings(max_examples=40, deadline=None)
@given(cuts=st.lists(st.integers(0, 100_000), max_size=20))
def test_usage_is_read_from_streams_and_bodies_cut_anywhere(
    format: str, encoding: bytes, cuts: list[int]
) -> None:
    for raw in (b"".join(events(format, ASKED)), json.dumps(_whole(format, ASKED)).encode()):
        sent = gzip.compress(raw, mtime=0) if encoding else raw
        billed = read(sent, cuts, encoding)

        assert billed is not None
        assert billed.output == 8
        assert billed.read > 400
        assert billed.prompt > 800
        assert (billed.written > 0) == (format == "anthropic")


def test_usage_behind_megabytes_is_found_and_what_a_model_says_is_not_taken_for_it() -> None:
    said = '{"usage": {"prompt_tokens": 10000000}} ' * 10_000
    answer = {"choices": [{"message": {"content": said}}], "usage": {"prompt_tokens": 7}}
    raw = json.dumps(answer).encode()
    chance = random.Random(0)

    assert read(raw, [chance.randrange(len(raw)) for _ in range(50)]) == Billed(fresh=7)


@settings(max_examples=60, deadline=None)
@given(raw=st.binary(max_size=200), encoding=st.sampled_from([b"", b"gzip", b"br", b"deflate"]))
def test_no_answer_makes_it_fail(raw: bytes, encoding: bytes) -> None:
    UsageReader(encoding).billed()
    read(raw, [3, 50], encoding)
    read(b'"usage": ' + raw, [3, 50])
    assert read(b'{"usage": null}', []) is None
    assert read(b'{"usage": {"prompt_tokens": "many"}}', []) == Billed()


def test_what_openai_says_was_written_to_its_cache_is_read_under_the_sdks_own_names() -> None:
    types = pytest.importorskip("openai.types", reason="needs openai")
    details = {"cached_tokens": 40, "cache_write_tokens": 50}
    chat = types.CompletionUsage(
        prompt_tokens=100, completion_tokens=7, total_tokens=107, prompt_tokens_details=details
    )
    answer = {
        "input_tokens": 100,
        "output_tokens": 7,
        "total_tokens": 107,
        "input_tokens_details": details,
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    responses = types.responses.ResponseUsage(**answer)

    for usage in (chat, responses):
        raw = f'{{"usage": {usage.model_dump_json()}}}'.encode()
        assert read(raw, []) == Billed(fresh=10, read=40, written=50, output=7)


def test_what_was_written_for_an_hour_is_told_apart_under_the_sdks_own_names() -> None:
    types = pytest.importorskip("anthropic.types", reason="needs anthropic")
    split = types.CacheCreation(ephemeral_5m_input_tokens=30, ephemeral_1h_input_tokens=70)
    usage = types.Usage(
        input_tokens=3,
        output_tokens=2,
        cache_read_input_tokens=9,
        cache_creation_input_tokens=100,
        cache_creation=split,
    )
    told = Billed(fresh=3, read=9, written=100, output=2, written_1h=70)
    said = usage.model_dump_json()

    assert read(f'{{"usage": {said}}}'.encode(), []) == told
    first = f'event: message_start\ndata: {{"message": {{"usage": {said}}}}}\n\n'
    last = 'event: message_delta\ndata: {"usage": {"output_tokens": 2, "cache_creation": null}}\n\n'
    assert read((first + last).encode(), [40]) == told


@pytest.mark.parametrize(
    ("details", "hour"),
    [
        ([{"ttl": "1h", "inputTokens": 60}, {"ttl": "5m", "inputTokens": 40}], 60),
        ([{"ttl": "5m", "inputTokens": 100}], 0),
        ([], None),
    ],
)
def test_converse_tells_lifetimes_apart_in_its_details(
    details: list[dict[str, object]], hour: int | None
) -> None:
    usage = {"inputTokens": 3, "outputTokens": 2, "cacheWriteInputTokens": 100}
    raw = json.dumps({"usage": {**usage, "cacheDetails": details}}).encode()

    assert read(raw, []) == Billed(fresh=3, written=100, output=2, written_1h=hour)
