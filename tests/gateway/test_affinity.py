"""The key of a conversation: the same for all of its calls, on every machine, and for no other."""

import json
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agora.errors import AgoraError
from agora.gateway.config import Tenants, parse_config
from agora.gateway.editing.affinity import affinity_key
from harness.gateway.histories import chat, messages, responses

ME = [(b"authorization", b"Bearer sk-1")]
MAKERS = {
    "chat": (chat, "messages"),
    "messages": (messages, "messages"),
    "responses": (responses, "input"),
}


def key(body: Any, headers: Any = ME) -> str:
    return affinity_key(headers, Tenants(), json.dumps(body).encode())


def gemini(steps: int, task: str = "Find it.") -> dict[str, Any]:
    said: list[Any] = [{"parts": [{"text": task}]}]
    for n in range(steps):
        said += [{"role": "model", "parts": [{"text": f"{n}"}]}, {"parts": [{"text": "go on"}]}]
    return {"contents": said, "systemInstruction": {"parts": [{"text": "Help."}]}}


@pytest.mark.parametrize("format", MAKERS)
@given(st.integers(0, 12), st.integers(13, 24), st.booleans())
def test_all_calls_of_a_conversation_have_one_key(
    format: str, first: int, later: int, streams: bool
) -> None:
    make, field = MAKERS[format]
    before, after = make(first, 100), make(later, 100)
    # Other fields change from call to call, and may stand anywhere.
    after = {"stream": streams, field: after.pop(field), **after, "max_tokens": 7}

    assert key(before) == key(after) != ""


def test_calls_of_gemini_have_one_key_and_another_task_has_another() -> None:
    assert key(gemini(1)) == key(gemini(9)) != key(gemini(1, "Find the other."))


def test_a_breakpoint_that_moves_on_changes_no_key() -> None:
    mark = {"cache_control": {"type": "ephemeral"}}
    said = {"type": "text", "text": "Find it."}
    first = {"system": "Help.", "messages": [{"role": "user", "content": [{**said, **mark}]}]}
    later = {"system": "Help.", "messages": [{"role": "user", "content": [said]}]}

    assert key(first) == key(later)


def test_the_number_that_claude_code_draws_for_each_call_changes_no_key() -> None:
    def call(number: str) -> dict[str, Any]:
        line = f"x-anthropic-billing-header: cc_version=2.1; cch={number};"
        system = [{"type": "text", "text": text} for text in (line, "You are Claude Code.")]
        return {"system": system, "messages": [{"role": "user", "content": "Find it."}]}

    assert key(call("12ab3")) == key(call("99f00"))


@pytest.mark.parametrize(
    "change",
    [
        {"system": "Hinder."},
        {"messages": [{"role": "user", "content": "Find the other."}]},
    ],
)
def test_another_text_or_another_tenant_has_another_key(change: dict[str, Any]) -> None:
    body = {"system": "Help.", "messages": [{"role": "user", "content": "Find it."}]}

    assert key(body) != key({**body, **change})
    assert key(body) != key(body, [(b"authorization", b"Bearer sk-2")])


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b'{"messages": 3}', b'{"messages": []}', b"\x1f\x8b", b'{"model":"m"}'],
)
def test_what_is_no_conversation_has_no_key(body: bytes) -> None:
    assert affinity_key(ME, Tenants(), body) == ""


def test_keys_fall_on_replicas_evenly_and_only_a_lost_ones_share_moves() -> None:
    keys = [key({"input": f"Task {n}"}) for n in range(3_000)]

    def replica(key: str, replicas: list[str]) -> str:
        return max(replicas, key=lambda name: sha256(f"{name} {key}".encode()).digest())

    three = [replica(key, ["a", "b", "c"]) for key in keys]
    two = [replica(key, ["a", "b"]) for key in keys]
    assert min(map(three.count, "abc")) > 800
    assert all(new == old for old, new in zip(three, two, strict=True) if old != "c")


def test_a_header_that_is_none_is_refused_with_its_name() -> None:
    with pytest.raises(AgoraError, match="affinity_header"):
        parse_config('upstreams = []\n[tenants]\naffinity_header = "no header"\n')
    config = parse_config('upstreams = []\n[tenants]\naffinity_header = "X-Agora-Affinity"\n')
    assert config.tenants.affinity_header == "x-agora-affinity"
