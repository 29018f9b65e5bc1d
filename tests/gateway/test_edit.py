"""Bodies edited: legal, sliced from the client's own bytes, the same with and without a memory."""

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agora.adapters import validate
from agora.core.compression import Rung
from agora.core.prices import sheet_for
from agora.core.scorer import Scorer
from agora.gateway.editing.editor import Editor
from agora.gateway.editing.job import Edited, Job
from agora.gateway.editing.settings import EditorSettings
from agora.gateway.routing.routes import CHAT, MESSAGES, RESPONSES, Route
from agora.scorers.features import FeaturesScorer
from agora.testing import FailingScorer, FixedScorer, histories, sample
from harness.gateway.histories import chat, messages, responses
from harness.gateway.odd_bodies import ROUTES, body_of, odd_bodies


def make_editor(scorer: Scorer | None = None, **changes: Any) -> Editor:
    return Editor(EditorSettings(scorer=scorer or FeaturesScorer(), **changes))


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
    assert not validate(
        sent[route.field], format=format, before=history.messages, **history.options
    )
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
        quick = remembering.look(job(body, route)).edited
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


def instructed(format: str, steps: int, *, hint: bool) -> bytes:
    """Return a body in which each third step reads instructions, by a tool that tells nothing."""
    made = {"openai": chat, "responses": responses, "anthropic": messages}[format]
    text = json.dumps(made(steps, 800)).replace('"name": "read"', '"name": "frobnicate"')
    for number in range(1, steps, 3):
        for path in (f"src/module_{number}.py\\", f'"m{number}.py"'):
            named = path.replace("src/module_", "").replace(".py", "/AGENTS.md")
            text = text.replace(path, named)
    body = json.loads(text)
    body["tools"][0]["annotations"] = {"readOnlyHint": hint}
    return json.dumps(body).encode()


@pytest.mark.parametrize("format", ROUTES)
def test_what_tools_say_of_themselves_is_known_with_a_memory_and_without(format: str) -> None:
    sent = {}
    for hint in (True, False):
        bodies = [instructed(format, steps, hint=hint) for steps in range(4, 44)]

        assert check_memory(iter(bodies), ROUTES[format]) > 10
        sent[hint] = edit(bodies[-1], ROUTES[format]).body
    # Instructions that were read stay, those that may have been written need not.
    assert len(sent[True]) > len(sent[False])


def test_tools_that_a_server_lists_later_are_known_with_a_memory_and_without() -> None:
    listed: dict[str, Any] = {"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "own"}
    listed |= {"tools": [{"name": "frobnicate", "annotations": {"readOnlyHint": True}}]}

    def bodies() -> Iterator[bytes]:
        for steps in range(4, 44):
            body = json.loads(instructed("responses", steps, hint=True))
            del body["tools"]
            if steps > 20:
                body["input"].insert(41, listed)
            yield json.dumps(body).encode()

    assert check_memory(bodies(), RESPONSES) > 5


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

    # At the prices of openai's model edits are often due, and the memory starts over with each.
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


def acted_by_text(steps: int) -> list[dict[str, Any]]:
    """Return the messages of an agent that acts by text, with a sentence of the user's inside."""
    said: list[dict[str, Any]] = [{"role": "user", "content": "Repair it. " * 40}]
    for n in range(steps):
        listing = "\n".join(f"src/module_{n}/file_{m}.py" for m in range(60))
        said += [
            {"role": "assistant", "content": f"THOUGHT: on\n\n```bash\nls src/{n}\n```"},
            {
                "role": "user",
                "content": f"<returncode>0</returncode>\n<output>\n{listing}\n</output>",
            },
        ]
        if n % 7 == 3:
            said += [
                {"role": "assistant", "content": "Shall I?"},
                {"role": "user", "content": f"Leave file {n} alone."},
            ]
    return said


@pytest.mark.parametrize("route", [CHAT, MESSAGES])
def test_an_agent_that_acts_by_text_gets_the_same_bytes_with_a_memory_and_without(
    route: Route,
) -> None:
    model = {"model": "claude-sonnet-5", "max_tokens": 9}
    said = acted_by_text(30)
    ends = [n for n, message in enumerate(said) if message["role"] == "user"]
    bodies = [json.dumps({**model, "messages": said[: n + 1]}).encode() for n in ends]

    check_memory(iter(bodies), route)

    last = edit(bodies[-1], route)
    assert last.changed
    assert all(f"Leave file {n} alone." in last.body.decode() for n in (3, 10, 17, 24))


def test_an_agent_that_turns_to_tools_gets_the_same_bytes_with_a_memory_and_without() -> None:
    asked = chat(30, 1_000)
    said = asked.pop("messages")
    task = next(n for n, message in enumerate(said) if message["role"] == "user")
    spoken = acted_by_text(6)[1:]
    for mixed in (
        [*said[: task + 1], *spoken, *said[task + 1 :]],
        [*said[:21], *spoken, *said[21:]],
    ):
        ends = [n for n, message in enumerate(mixed) if message["role"] != "assistant" and n > 3]
        bodies = (json.dumps({**asked, "messages": mixed[: n + 1]}).encode() for n in ends)
        check_memory(bodies, CHAT)


def test_a_long_talk_without_steps_gets_a_hint() -> None:
    talk = [{"role": r, "content": "well " * 20} for _ in range(12) for r in ("user", "assistant")]
    body = json.dumps({"model": "gpt-4o", "messages": talk}).encode()

    assert edit(body, CHAT).hint == "acts by text? 0 steps seen; pass observations=user"
    assert not edit(body, CHAT, observations="none").hint


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

    assert editor.look(job(start + b', "model": "gpt-4o", "n": 1}', CHAT)).edited is not None
    assert editor.look(job(start + end, CHAT)).edited is None


def test_a_memory_is_of_one_tenant_only() -> None:
    body = json.dumps(chat(40)).encode()
    editor = make_editor()
    editor(job(body, CHAT, tenant="t-1"))

    assert editor.look(job(body, CHAT, tenant="t-1")).edited is not None
    assert editor.look(job(body, CHAT, tenant="t-2")).edited is None


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
        assert len(own) >= len(kept) - sum("elided" in json.dumps(m) for m in kept)
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
    # What went on goes on: another choice would break the prefix.
    assert editor(job(body, CHAT)).body == late.body
    assert make_editor()(job(body, CHAT)).rung is Rung.SCORED
