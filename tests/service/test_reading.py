"""What is read off bodies and answers: usage, an agent's own summary, a conversation's name."""

import gzip
import itertools
import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("msgspec", reason="the extra gateway is not installed")

from agora.logs import Usage
from agora.service import Service, UsageStream, route_of, settings_from

# Private: which requests ask for a summary: agents' own words.
from agora.summaries import asks_for_summary
from harness.agents.speech import OUTPUT_TOKENS
from harness.gateway.histories import chat, messages, responses
from harness.gateway.strict_upstream import events, whole

ASKED = {"model": "m", "messages": "one two " * 1_000}
MAKERS = {
    "/v1/chat/completions": (chat, "messages"),
    "/v1/messages": (messages, "messages"),
    "/v1/responses": (responses, "input"),
}
REQUESTS = (
    "No tools.\n\nYour task is to create a detailed summary of the conversation so far.",
    "You are performing a CONTEXT CHECKPOINT COMPACTION. Hand over.",
    "Keep what matters.\n\nFirst, reason in your scratchpad. Then, generate the <state_snapshot>.",
    "Create a new anchored summary from the conversation history.",
    "Provide a detailed prompt for continuing our conversation above.",
    "The messages above are a conversation to summarize.",
)


def read(raw: bytes, cuts: list[int], encoding: str = "") -> Usage | None:
    reader = UsageStream(encoding)
    places = sorted({0, len(raw), *(cut % (len(raw) + 1) for cut in cuts)})
    for start, end in itertools.pairwise(places):
        reader.feed(raw[start:end])
    return reader.usage()


@pytest.mark.parametrize("format", ["openai", "responses", "anthropic"])
@pytest.mark.parametrize("encoding", ["", "gzip"])
@given(cuts=st.lists(st.integers(0, 100_000), max_size=20))
def test_usage_is_read_from_streams_and_bodies_cut_anywhere(
    format: str, encoding: str, cuts: list[int]
) -> None:
    for raw in (b"".join(events(format, ASKED)), json.dumps(whole(format, ASKED)).encode()):
        usage = read(gzip.compress(raw, mtime=0) if encoding else raw, cuts, encoding)

        assert usage is not None
        assert (usage.output, usage.prompt > 800) == (OUTPUT_TOKENS, True)
        assert (usage.written > 0) == (format == "anthropic")


def test_usage_behind_megabytes_is_found_and_what_a_model_says_is_not_taken_for_it() -> None:
    said = '{"usage": {"prompt_tokens": 10000000}} ' * 10_000
    answer = {"choices": [{"message": {"content": said}}], "usage": {"prompt_tokens": 7}}
    raw, chance = json.dumps(answer).encode(), random.Random(0)

    assert read(raw, [chance.randrange(len(raw)) for _ in range(50)]) == Usage(uncached=7)


@given(raw=st.binary(max_size=200), encoding=st.sampled_from(["", "gzip", "br", "deflate"]))
def test_no_answer_makes_it_fail(raw: bytes, encoding: str) -> None:
    read(raw, [3, 50], encoding)
    read(b'"usage": ' + raw, [3, 50])


@pytest.mark.parametrize("asked", REQUESTS)
def test_a_request_to_sum_up_is_recognised_at_the_end_and_nowhere_else(asked: str) -> None:
    said = {"role": "user", "content": asked}
    quoted = {"role": "user", "content": f"Why is '{asked.splitlines()[-1]}' there?"}
    block = {"type": "tool_result", "tool_use_id": "a", "content": asked}

    assert asks_for_summary([said])
    assert asks_for_summary([{"role": "user", "content": [{"type": "text", "text": asked}]}])
    assert not asks_for_summary([said, {"role": "assistant", "content": "Done."}])
    assert not asks_for_summary([quoted])
    assert not asks_for_summary([{"role": "user", "content": [block]}])


def key(body: Any, path: str = "/v1/messages", who: str = "sk-1") -> str:
    route = route_of("POST", path)
    assert route is not None
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    service = Service(settings_from({"limits": {"workers": 0}}))
    return service.affinity(route, {"authorization": f"Bearer {who}"}, raw)


@pytest.mark.parametrize("path", MAKERS)
@pytest.mark.parametrize("streams", [False, True])
def test_all_calls_of_a_conversation_share_a_name_in_every_process(
    path: str, streams: bool
) -> None:
    make, field = MAKERS[path]
    before, after = make(2, 100), make(20, 100)
    # Other fields change from call to call, and may stand anywhere.
    after = {"stream": streams, field: after.pop(field), **after, "max_tokens": 7}

    assert key(before, path) == key(after, path) != ""
    assert key(before, path) != key(before, path, who="sk-2")


def test_a_mark_for_the_cache_that_moves_on_changes_no_name() -> None:
    mark, said = {"cache_control": {"type": "ephemeral"}}, {"type": "text", "text": "Find it."}
    first = {"messages": [{"role": "user", "content": [{**said, **mark}]}]}
    later = {"messages": [{"role": "user", "content": [said]}]}

    assert key(first) == key(later) != key({"messages": [{"role": "user", "content": "Other."}]})


@pytest.mark.parametrize("body", [b"", b"{", b'{"messages": 3}', b'{"messages": []}', b"\x1f"])
def test_what_is_no_conversation_has_no_name(body: bytes) -> None:
    assert key(body) == ""
