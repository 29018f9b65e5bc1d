"""Bodies edited: legal, sliced from the client's own bytes, the same with and without a memory."""

import hashlib
import json
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agora.adapters import validate
from agora.core.compression import Rung
from agora.core.prices import sheet_for
from agora.core.scorer import Scorer
from agora.gateway.edit import Edited, Editor, Job, Settings
from agora.gateway.route import CHAT, MESSAGES, RESPONSES, Route
from agora.scorers.features import FeaturesScorer
from agora.testing import FailingScorer, FixedScorer, History, histories, sample
from tests.gateway.histories import chat, messages, responses

ROUTES = {"openai": CHAT, "responses": RESPONSES, "anthropic": MESSAGES}
MODELS = {"openai": "gpt-4o", "responses": "gpt-5", "anthropic": "claude-sonnet-4-5"}


def make_editor(scorer: Scorer | None = None, **changes: Any) -> Editor:
    return Editor(Settings(scorer=scorer or FeaturesScorer(), **changes))


def body_of(history: History, upto: int | None = None, **more: Any) -> bytes:
    asked: dict[str, Any] = {"model": MODELS[history.format], **more}
    if history.system is not None:
        asked["instructions" if history.format == "responses" else "system"] = history.system
    if history.tools is not None:
        asked["tools"] = history.tools
    if history.thinking:
        asked["thinking"] = {"type": "enabled", "budget_tokens": 1_024}
    field = ROUTES[history.format].field
    asked[field] = history.messages if upto is None else history.upto(upto)
    return json.dumps(
        asked, ensure_ascii=False, indent=random.Random(upto).choice([None, 1])
    ).encode("utf-8", "surrogatepass")


def job(body: bytes, route: Route, **more: Any) -> Job:
    return Job(body=body, route=route, sheet_of=lambda model: sheet_for(model or ""), **more)


def edit(body: bytes, route: Route, **changes: Any) -> Edited:
    return make_editor(**changes)(job(body, route))


@pytest.mark.parametrize("format", ROUTES)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_what_goes_on_is_legal_and_made_of_the_clients_own_slices(
    format: str, data: st.DataObject
) -> None:
    history = data.draw(histories(format))
    route = ROUTES[format]
    body = body_of(history)

    edited = edit(body, route, scorer=FixedScorer((0.1, 0.9)), schedule="every_call", k_recent=1)

    if not edited.changed:
        assert edited.body is body
        return
    sent = json.loads(edited.body)
    assert not validate(sent[route.field], format=format, before=history.messages, **history.beside)
    assert {k: v for k, v in sent.items() if k != route.field} == {
        k: v for k, v in json.loads(body).items() if k != route.field
    }
    for message in sent[route.field]:
        # What was not edited stands there byte for byte.
        if message in json.loads(body)[route.field]:
            continue
        assert "elided" in json.dumps(message) or "cache_control" in json.dumps(message)


def check_memory(bodies: Iterator[bytes], route: Route, **changes: Any) -> int:
    """Pass if bodies become the same with a memory and without; return for how many it was used."""
    remembering = make_editor(**changes)
    used = 0
    for number, body in enumerate(bodies):
        quick = remembering.again(job(body, route))
        with_memory = quick or remembering(job(body, route))
        without = edit(body, route, **changes)
        assert with_memory.body == without.body, number
        assert (with_memory.reason, with_memory.rung) == (without.reason, without.rung)
        assert with_memory.model == without.model
        assert with_memory.stream == without.stream
        assert with_memory.tokens_before == without.tokens_before
        assert with_memory.tokens_after == without.tokens_after
        if quick is not None and quick.changed:
            assert quick.newest_tokens == without.newest_tokens
        used += quick is not None
    return used


@pytest.mark.parametrize("first", ["messages", "model"])
@pytest.mark.parametrize("format", ROUTES)
def test_a_conversation_gets_the_same_bytes_with_a_memory_and_without(
    format: str, first: str
) -> None:
    made = {"openai": chat, "responses": responses, "anthropic": messages}[format]
    route = ROUTES[format]
    first = route.field if first == "messages" else first

    def bodies() -> Iterator[bytes]:
        for steps in range(4, 44):
            asked = {**made(steps, 800), "stream": True}
            yield json.dumps({first: asked.pop(first), **asked}).encode()

    assert check_memory(bodies(), route) > 15


@pytest.mark.parametrize("marked", [1, 3])
@pytest.mark.parametrize("format", ["openai", "anthropic"])
def test_breakpoints_that_move_along_do_not_make_a_conversation_unknown(
    format: str, marked: int
) -> None:
    def bodies() -> Iterator[bytes]:
        for steps in range(4, 40):
            asked = {"anthropic": messages, "openai": chat}[format](steps, 1_000)
            theirs = [m for m in asked["messages"] if m["role"] in ("user", "tool")]
            for message in theirs[-marked:]:
                if isinstance(message["content"], str):
                    message["content"] = [{"type": "text", "text": message["content"]}]
                message["content"][-1]["cache_control"] = {"type": "ephemeral"}
            yield json.dumps(asked).encode()

    # At the prices of openai's model edits are often due, and the memory starts anew with each.
    assert check_memory(bodies(), ROUTES[format]) > {"anthropic": 15, "openai": 6}[format]


def test_a_user_who_is_the_world_makes_no_difference_to_the_memory() -> None:
    asked = chat(40, 1_000)
    asked["messages"][5:5] = [{"role": "user", "content": "The door opens. " * 20}]
    for n in range(60, 20, -6):
        asked["messages"][n:n] = [{"role": "user", "content": f"You see door {n}. " * 20}]
    said = asked.pop("messages")
    ends = [n for n, message in enumerate(said) if message["role"] != "assistant" and n > 20]
    bodies = (json.dumps({**asked, "messages": said[: n + 1]}).encode() for n in ends[::2])

    check_memory(bodies, CHAT, observations="user")


@pytest.mark.parametrize("format", ROUTES)
def test_every_history_gets_the_same_bytes_with_a_memory_and_without(format: str) -> None:
    changes: dict[str, Any] = {"keep_ratio": 0.1, "k_recent": 1}
    for history in sample(format, 15, seed=3, max_steps=12):
        bodies = (json.dumps(json.loads(body_of(history, upto))).encode() for upto in history.calls)
        check_memory(bodies, ROUTES[format], **changes)


@pytest.mark.parametrize(
    "end",
    [
        b', "stream": true, "model": "other"}',
        b', "model": "gpt-4o", "messages": []}',
        b', "model": "gpt-4o", "model": "gpt-4o"}',
        b', "model": "gpt-4o"',
        b', "model": "gpt-4o"}}',
        b', "model": "gpt-4o", "x": ' + b"[" * 70 + b"]" * 70 + b"}",
        b', "model": "gpt-4o", "tools": []}',
    ],
)
def test_a_memory_is_not_used_for_what_ends_in_another_way(end: bytes) -> None:
    asked = chat(40)
    start = b'{"messages": ' + json.dumps(asked["messages"]).encode()
    editor = make_editor()
    editor(job(start + b', "model": "gpt-4o"}', CHAT))

    assert editor.again(job(start + b', "model": "gpt-4o", "n": 1}', CHAT)) is not None
    assert editor.again(job(start + end, CHAT)) is None


def test_a_memory_is_of_one_tenant_only() -> None:
    body = json.dumps(chat(40)).encode()
    editor = make_editor()
    editor(job(body, CHAT, tenant="t-1"))

    assert editor.again(job(body, CHAT, tenant="t-1")) is not None
    assert editor.again(job(body, CHAT, tenant="t-2")) is None


def odd_bodies(count: int, seed: int = 0) -> Iterator[tuple[str, bytes]]:
    """Yield bodies with whatever JSON allows: numbers, escapes, white space, unknown fields."""
    chance = random.Random(seed)
    for n in range(count):
        format = chance.choice(list(ROUTES))
        history = next(iter(sample(format, 1, seed=chance.randrange(10**9), max_steps=6)))
        text = body_of(history, temperature=1.0, seed=2**63, top_p=1e-7).decode(
            "utf-8", "surrogatepass"
        )
        extra = chance.choice(
            [
                "",
                '"x":1.0,"x":2,',
                '"big":18446744073709551616,',
                r'"split":"\ud83d",',
                r'"emoji":"\ud83d\ude42",',
                '"exp":1E+2,\r\n',
                '"neg":-0.0,',
                '"metadata":{"a":{"b":[1,2,3]}},',
            ]
        )
        text = text.replace("{", "{" + extra, 1)
        if n % 3 == 0:
            text = text.replace("\n", "\r\n")
        yield format, text.encode("utf-8", "surrogatepass")


def check_fidelity(count: int) -> None:
    """Pass if bodies that are not edited are the same object, and of others all is sliced."""
    editor = make_editor()
    for format, body in odd_bodies(count):
        before = hashlib.sha256(body).hexdigest()
        edited = editor(job(body, ROUTES[format]))
        assert hashlib.sha256(body).hexdigest() == before
        if not edited.changed:
            assert edited.body is body


def test_odd_bodies_go_on_as_they_came() -> None:
    check_fidelity(150)


def test_every_message_that_stays_is_a_slice_of_the_body() -> None:
    for made, route in ((chat, CHAT), (responses, RESPONSES), (messages, MESSAGES)):
        asked = made(40)
        asked["metadata"] = {"n": 1}
        body = json.dumps(asked, indent=2, ensure_ascii=False).replace("\n", "\r\n").encode()
        edited = edit(body, route)

        assert edited.rung is Rung.SCORED
        kept = json.loads(edited.body)[route.field]
        own = [m for m in kept if m in asked[route.field]]
        assert len(own) >= len(kept) - 5
        assert len(kept) < len(asked[route.field])
        for message in own:
            text = json.dumps(message, indent=2, ensure_ascii=False)
            inside = text.replace("\n", "\r\n    ").encode()
            assert inside in body
            assert inside in edited.body


def test_server_side_history_goes_on_untouched() -> None:
    for name in ("previous_response_id", "conversation"):
        body = json.dumps({**responses(40), name: "resp_1"}).encode()

        edited = edit(body, RESPONSES)

        assert edited.body is body
        assert edited.reason == "server_side_history"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"null",
        b'{"messages": "text"}',
        b'{"messages": [1, 2]}',
        b'{"messages": []}',
        b'{"messages": [{"role": "user"}], "messages": []}',
        b'{"model": 7, "messages": [{"role": "user", "content": 7}]}',
        b'{"model": "\xff", "messages": []}',
        rb'{"model": "\ud800", "messages": [{"role":"user","content":"\ud800"}]}',
        b"\xef\xbb\xbf{}",
    ],
)
def test_what_cannot_be_read_goes_on_as_it_came(body: bytes) -> None:
    for route in ROUTES.values():
        edited = edit(body, route)

        assert edited.body is body
        assert not edited.changed


def test_what_is_nested_too_deeply_is_named() -> None:
    deep = b"[" * 70 + b"]" * 70
    for body in (
        b'{"messages": [{"role": "user", "content": ' + deep + b"}]}",
        b'{"messages": [], "tools": ' + deep + b"}",
        b'{"x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ):
        assert edit(body, CHAT).reason == "too_deep"


def test_a_scorer_that_fails_leaves_the_rule_and_one_that_panics_too() -> None:
    body = json.dumps(chat(40)).encode()
    for error in (RuntimeError("no model"), MemoryError(), Panic()):
        edited = edit(body, CHAT, scorer=FailingScorer(error))  # type: ignore[arg-type]

        assert edited.rung is Rung.RULE
        assert edited.changed


class Panic(BaseException):
    """What native code raises."""


def test_a_scorer_out_of_time_leaves_the_rule() -> None:
    body = json.dumps(chat(40)).encode()
    editor = make_editor()

    late = editor(job(body, CHAT, until=0.0))

    assert late.rung is Rung.RULE
    assert editor(replace(job(body, CHAT))).rung is Rung.SCORED
