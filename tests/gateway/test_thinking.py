"""Thinking bound to the prefix, through the gateway: what is sent holds, or is answered once."""

import http.client
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="the extra gateway is not installed")

from agora import bound_thinking
from agora.adapters.thoughts import count_thinking
from agora.core.prices import PriceSheet
from agora.gateway.config import Compression, Config
from agora.gateway.editing.pool import Pool
from agora.gateway.editing.thinking import (
    BETA,
    HeldThinking,
    asking,
    marks,
    with_beta,
    without,
)
from agora.sent_thinking import SentThinking, mark
from harness.gateway.loopback import config_for, gateway, serving
from harness.gateway.signing_upstream import SigningUpstream
from harness.gateway.strict_upstream import Received
from harness.signing import Outcome

FABLE, OPUS = "claude-fable-5-1", "claude-opus-5-5"
SHEET = PriceSheet(name=FABLE, input=10.0, read=0.2, write=1.0, output=50.0)


@dataclass
class Client:
    """An agent that reads one long file after the other."""

    model: str = FABLE
    messages: list[dict[str, Any]] = field(
        default_factory=lambda: [{"role": "user", "content": "Read all files."}]
    )
    lost: list[int] = field(default_factory=list)
    betas: str = ""

    def call(self, url: str, *, bypass: bool = False) -> int:
        host, port = url.removeprefix("http://").split(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=20)
        headers = {"x-api-key": "sk-ant-key", "anthropic-version": "2023-06-01"}
        headers |= {"x-agora-bypass": "1"} if bypass else {}
        headers |= {"anthropic-beta": self.betas} if self.betas else {}
        tools = [{"name": "read", "input_schema": {"type": "object"}}]
        body = {"model": self.model, "max_tokens": 9, "tools": tools, "messages": self.messages}
        connection.request("POST", "/v1/messages", json.dumps(body).encode(), headers)
        answer = connection.getresponse()
        said = json.loads(answer.read())
        connection.close()
        if answer.status == 200:
            use = said["content"][-1]
            text = f"line of file {use['id']} = {use['input']['n']}\n" * 60
            result = {"type": "tool_result", "tool_use_id": use["id"], "content": text}
            self.messages += [
                {"role": "assistant", "content": said["content"]},
                {"role": "user", "content": [result]},
            ]
        return answer.status

    def calls(self, url: str, count: int) -> None:
        for _ in range(count):
            assert self.call(url) == 200


def config(url: str, **changes: Any) -> Config:
    compression = Compression(min_tokens=0, **changes)
    made = config_for(url, compression=compression)
    # Prices at which an edit pays every few calls.
    return replace(made, sheets={name: replace(SHEET, name=name) for name in (FABLE, OPUS)})


@contextmanager
def provider(outcome: Outcome | None = None) -> Iterator[tuple[SigningUpstream, str]]:
    upstream = SigningUpstream(outcome=outcome)
    with serving(upstream) as url:
        yield upstream, url


def forget() -> None:
    """Forget what a process remembers: the next gateway is one of its own."""
    bound_thinking._sent = SentThinking()


def sent(upstream: SigningUpstream) -> list[int]:
    """How many thinking blocks each accepted request had."""
    return [
        sum(map(count_thinking, json.loads(one.body)["messages"]))
        for one in upstream.received
        if one.status == 200
    ]


@pytest.mark.parametrize("model", [FABLE, OPUS])
def test_a_long_conversation_is_edited_again_and_again_and_never_refused(model: str) -> None:
    client = Client(model)
    with provider() as (upstream, url), gateway(config(url)) as (door, app):
        client.calls(door, 30)
        count = app.forwarder.meter.snapshot()

    assert (upstream.refused, upstream.dropped) == (0, 0)
    bodies = [json.loads(one.body)["messages"] for one in upstream.received]
    assert any("elided" in json.dumps(body) for body in bodies)
    # Between edits nothing is lost: the number grows by one at each call, and falls at an edit.
    steps = [after - before for before, after in pairwise(sent(upstream))]
    assert all(step == 1 or step < 0 for step in steps)
    lost = sum(before + 1 - after for before, after in pairwise(sent(upstream)))
    assert count.total("agora_thinking_blocks_removed_total") == lost > 0
    assert count.total("agora_resent_total") == 0


def test_a_restarted_gateway_goes_on_without_a_refusal() -> None:
    client = Client()
    with provider() as (upstream, url):
        for _ in range(5):
            forget()
            with gateway(config(url)) as (door, _):
                client.calls(door, 6)

    assert upstream.refused == 0


def taken_out(upstream: SigningUpstream) -> int:
    """How many thinking blocks were no longer sent, by the requests themselves."""
    return sum(max(0, before + 1 - after) for before, after in pairwise(sent(upstream)))


def test_a_block_that_is_no_longer_sent_is_counted_once_whoever_goes_on() -> None:
    client, counted = Client(), 0.0
    with provider() as (upstream, url):
        # None of the restarts falls on an edit: there it cannot be known what an earlier one took.
        for _ in range(6):
            forget()
            with gateway(config(url)) as (door, app):
                client.calls(door, 5)
                counted += app.forwarder.meter.snapshot().total(
                    "agora_thinking_blocks_removed_total"
                )

    assert counted == taken_out(upstream) > 0


def test_thinking_that_stays_out_in_shadow_is_counted_once() -> None:
    client = Client()
    with provider() as (upstream, url):
        with gateway(config(url)) as (door, _):
            client.calls(door, 20)
        before = sent(upstream)[-1]
        forget()
        with gateway(config(url, mode="shadow")) as (door, app):
            client.calls(door, 8)
            count = app.forwarder.meter.snapshot()

    assert (upstream.refused, before > 0) == (1, True)
    assert count.total("agora_thinking_blocks_removed_total") == 20


@pytest.mark.parametrize("mode", ["shadow", "edit"])
def test_a_mode_switched_in_the_middle_costs_at_most_one_answered_refusal(mode: Any) -> None:
    other = {"shadow": "edit", "edit": "shadow"}[mode]
    refused = []
    for calls in range(10, 30, 3):
        client = Client()
        with provider() as (upstream, url):
            with gateway(config(url, mode=mode)) as (door, _):
                client.calls(door, calls)
            forget()
            with gateway(config(url, mode=other)) as (door, app):
                client.calls(door, 3)
                count = app.forwarder.meter.snapshot()
        assert count.total("agora_resent_total", fault="thinking") == upstream.refused
        refused.append(upstream.refused)

    # None where the switch falls on an edit, or before the first.
    assert set(refused) == {0, 1}


def test_an_agent_that_bypasses_for_a_call_is_not_refused() -> None:
    client = Client()
    with provider() as (upstream, url), gateway(config(url)) as (door, _):
        client.calls(door, 14)
        assert client.call(door, bypass=True) == 200
        client.calls(door, 4)

    assert upstream.refused == 0


def test_a_late_edit_is_sent_without_what_was_thought_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = Client()
    with provider() as (upstream, url), gateway(config(url)) as (door, _):
        client.calls(door, 14)
        run = Pool.run
        late = False

        async def too_late(self: Any, *given: Any, **more: Any) -> Any:
            outcome = await run(self, *given, **more)
            return "deadline" if late else outcome

        monkeypatch.setattr(Pool, "run", too_late)
        for _ in range(24):
            late = not late
            client.calls(door, 1)

    assert upstream.refused == 0


def test_a_refusal_of_thinking_is_answered_once_and_never_twice() -> None:
    class Hard(SigningUpstream):
        async def _answer(self, request: Received, send: Any) -> None:
            text = "messages.1.content.0: Invalid `signature` in `thinking` block. The block is"
            text += " bound to a different conversation. Remove the block, or set"
            text += ' `thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
            await self._refuse(request, send, "anthropic", text)

    client = Client()
    with provider() as (_, url), gateway(config(url)) as (door, _):
        client.calls(door, 9)
    hard = Hard()
    with serving(hard) as url, gateway(config(url)) as (door, app):
        assert client.call(door) == 400
        count = app.forwarder.meter.snapshot()

    assert [sum(map(count_thinking, json.loads(r.body)["messages"])) for r in hard.received] == [
        9,
        0,
    ]
    assert count.total("agora_resent_total", fault="thinking") == 1


def test_with_drop_block_a_switch_costs_no_refusal_and_the_clients_betas_stay() -> None:
    dropped = 0
    for calls in range(10, 30, 3):
        client = Client(betas="context-1m-2025-08-07")
        with provider() as (upstream, url):
            with gateway(config(url, mode="shadow")) as (door, _):
                client.calls(door, calls)
            forget()
            with gateway(config(url, drop_block=True)) as (door, _):
                client.calls(door, 4)
        assert upstream.refused == 0
        dropped += upstream.dropped
        asked = [one for one in upstream.received if b"drop_block" in one.body]
        assert upstream.received[-len(asked) :] == asked or not asked
        for one in asked:
            assert one.header("anthropic-beta") == f"context-1m-2025-08-07,{BETA.decode()}"
            setting = json.loads(one.body)["thinking"]
            assert setting["block_binding"] == {"prefix_mismatch_behavior": "drop_block"}

    assert dropped > 0


def test_gzipped_bodies_lose_their_thinking_too() -> None:
    import gzip

    body = {"model": FABLE, "messages": Client().messages}
    assert without(gzip.compress(json.dumps(body).encode()), "messages") == (
        gzip.compress(json.dumps(body).encode()),
        0,
    )


# --- bodies


LONG = "c2lnbmF0dXJlIG9mIGEgYmxvY2s="


def body_of(*blocks: Any, **more: Any) -> bytes:
    said = {"role": "assistant", "content": [*blocks, {"type": "text", "text": "Go."}]}
    messages = [{"role": "user", "content": "Do it."}, said, {"role": "user", "content": "On."}]
    return json.dumps({"model": FABLE, "messages": messages, **more}).encode()


def thought(signature: str = LONG) -> dict[str, Any]:
    return {"type": "thinking", "thinking": "hm", "signature": signature}


def test_blocks_are_found_by_their_bytes_newest_first() -> None:
    sealed = {"type": "redacted_thinking", "data": LONG + "sealed"}
    turned = {"data": LONG + "turned", "type": "redacted_thinking"}
    hidden = {"reasoningContent": {"redactedContent": LONG + "hidden"}}
    short = {"type": "tool_use", "id": "a", "name": "f", "input": {"signature": "f(x)"}}
    body = body_of(thought(), sealed, thought(LONG + "2"), turned, short, hidden)

    found = [LONG + "hidden", LONG + "turned", LONG + "2", LONG + "sealed", LONG]
    assert list(marks(body)) == [mark(one) for one in found]
    assert list(marks(b"")) == []
    assert list(marks(b'"redacted_thinking"')) == []
    assert list(marks(b'"signature": "cut off')) == []


def test_to_find_the_blocks_reads_a_long_body_once_and_not_once_per_block() -> None:
    began = time.perf_counter()
    filled = b"x" * 16_000_000
    assert len(list(marks(filled + b'{"signature":"%b"},' % LONG.encode() * 256))) == 256
    sealed = b'{"type":"redacted_thinking"},' * 256
    assert list(marks(filled + sealed)) == []

    # Once per block takes seconds.
    assert time.perf_counter() - began < 1.0


def test_a_body_without_thinking_keeps_every_other_byte() -> None:
    body = body_of(thought(), thought(LONG + "2"))

    bare, blocks = without(body, "messages")

    assert blocks == 2
    start = bare.index(b'[{"type"')
    assert bare[:start] == body_of()[:start]
    assert body_of().endswith(bare[bare.index(b"}]}, {") + 3 :])
    assert json.loads(bare) == json.loads(body_of())
    assert without(bare, "messages") == (bare, 0)
    assert without(body, "messages", mark("another"))[1] == 0
    assert without(body, "contents") == (body, 0)
    assert without(b"not JSON", "messages") == (b"not JSON", 0)
    assert without(b'{"messages": [{"a": 1e400e}]}', "messages")[1] == 0
    assert without(b'{"messages": []}', "messages")[1] == 0


def test_the_provider_is_asked_to_drop_without_touching_anything_else() -> None:
    assert json.loads(asking(b"{}") or b"") == {
        "thinking": {
            "type": "adaptive",
            "block_binding": {"prefix_mismatch_behavior": "drop_block"},
        }
    }
    assert asking(b'{"thinking": {"type": "disabled"}}') is None
    assert asking(b'{"thinking": 3}') is None
    assert asking(b'{"thinking": {"type": "adaptive", "block_binding": 3}}') is None
    assert asking(b"[]") is None
    own = b'{"thinking": {"block_binding": {"prefix_mismatch_behavior": "error"}}}'
    assert asking(own) == own
    before = asking(b'{"model": "m", "messages": []}') or b""
    assert before.endswith(b'"model": "m", "messages": []}')


def test_the_beta_joins_those_of_the_client() -> None:
    assert with_beta([]) == [(b"anthropic-beta", BETA)]
    assert with_beta([(b"Anthropic-Beta", b"a,b")]) == [(b"Anthropic-Beta", b"a,b," + BETA)]
    assert with_beta([(b"anthropic-beta", b"")]) == [(b"anthropic-beta", BETA)]
    there = [(b"x", b"1"), (b"anthropic-beta", b"a, " + BETA)]
    assert with_beta(there) == there


def test_where_it_cannot_be_known_what_holds_a_model_that_refuses_gets_none() -> None:
    body = body_of(thought())

    def held(model: str, **more: Any) -> int:
        return (
            HeldThinking()
            .held(body, body, field="messages", model=model, who="t", edit=None, **more)
            .blocks
        )

    assert held(FABLE, unsure=True) == 1
    assert held(FABLE) == 0
    assert held(OPUS, unsure=True) == 0
    assert held("claude-mythos-5-1", unsure=True) == 0
    assert held("gpt-5", unsure=True) == 0
    assert HeldThinking().refused(b"{}", b"{}", field="messages", who="t", edit=None) is None


def test_a_client_that_turned_thinking_off_is_not_asked_for() -> None:
    body = body_of(thought(), thinking={"type": "disabled"})
    holds = HeldThinking()

    found = holds.held(
        body, body, field="messages", model=FABLE, who="t", edit=(3, 0), may_ask=True
    )

    assert (found.body, found.asks) == (body, False)
