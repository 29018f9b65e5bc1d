"""Models that bind thinking, through the proxy: nothing is refused or dropped at the provider."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("aiohttp", reason="the extra gateway is not installed")

from harness.gateway.loopback import serving
from harness.gateway.signing_upstream import SigningUpstream
from harness.shortened import is_edited
from harness.signing import Outcome
from tests.proxy.running import Running, proxy

FABLE, OPUS = "claude-fable-5-1", "claude-opus-5-5"
# Prices at which an edit pays every few calls.
SHEET = {"input": 10.0, "read": 0.2, "write": 1.0, "output": 50.0}
PRICES = {FABLE: SHEET, OPUS: SHEET}


@dataclass
class Agent:
    """Reads one long file after the other."""

    model: str = FABLE
    messages: list[dict[str, Any]] = field(
        default_factory=lambda: [{"role": "user", "content": "Read all files."}]
    )

    def call(self, running: Running, **headers: str) -> int:
        tools = [{"name": "read", "input_schema": {"type": "object"}}]
        body = {"model": self.model, "max_tokens": 9, "tools": tools, "messages": self.messages}
        answer = running.post("/v1/messages", body, **headers)
        if answer.status == 200:
            said = answer.json["content"]
            use = said[-1]
            text = f"line of file {use['id']} = {use['input']['n']}\n" * 60
            result = {"type": "tool_result", "tool_use_id": use["id"], "content": text}
            self.messages += [
                {"role": "assistant", "content": said},
                {"role": "user", "content": [result]},
            ]
        return answer.status

    def calls(self, running: Running, count: int) -> None:
        for _ in range(count):
            assert self.call(running) == 200


@contextmanager
def provider(outcome: Outcome | None = None) -> Iterator[tuple[SigningUpstream, str]]:
    upstream = SigningUpstream(outcome=outcome)
    with serving(upstream) as url:
        yield upstream, url


def sent(upstream: SigningUpstream) -> list[int]:
    """Return how many thinking blocks each accepted request had."""
    bodies = [json.loads(one.body) for one in upstream.received if one.status == 200]
    return [
        sum(
            part["type"].endswith("thinking")
            for message in body["messages"]
            if isinstance(message["content"], list)
            for part in message["content"]
        )
        for body in bodies
    ]


def was_edited(upstream: SigningUpstream) -> bool:
    return any(is_edited(one.body) for one in upstream.received)


@pytest.mark.parametrize("model", [FABLE, OPUS])
def test_a_long_conversation_is_edited_again_and_again(model: str) -> None:
    agent = Agent(model)
    with provider() as (upstream, url), proxy(url, prices=PRICES) as running:
        agent.calls(running, 30)

    assert (upstream.refused, upstream.dropped) == (0, 0)
    assert was_edited(upstream)
    # Between edits nothing is lost.
    steps = [after - before for before, after in pairwise(sent(upstream))]
    assert all(step == 1 or step < 0 for step in steps)
    assert max(sent(upstream)) > 2


@pytest.mark.parametrize("outcome", ["error", "drop"])
def test_restarts(outcome: Outcome) -> None:
    agent = Agent()
    with provider(outcome) as (upstream, url):
        for _ in range(6):
            with proxy(url, prices=PRICES) as running:
                agent.calls(running, 5)

    assert (upstream.refused, upstream.dropped) == (0, 0)
    assert was_edited(upstream)


@pytest.mark.parametrize("outcome", ["error", "drop"])
def test_restarts_that_find_the_account_cost_no_thinking(
    outcome: Outcome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGORA_SECRET", "made up")
    with provider(outcome) as (whole, url), proxy(url, prices=PRICES) as running:
        Agent().calls(running, 30)
    agent, state = Agent(), tmp_path / "account.json"
    with provider(outcome) as (upstream, url):
        for _ in range(6):
            with proxy(url, prices=PRICES, state=state) as running:
                agent.calls(running, 5)

    assert (upstream.refused, upstream.dropped) == (0, 0)
    assert sent(upstream) == sent(whole)
    assert "line of file" not in state.read_text()


@pytest.mark.parametrize("outcome", ["error", "drop"])
def test_two_replicas_that_know_nothing_of_each_other(outcome: Outcome) -> None:
    agent = Agent()
    with (
        provider(outcome) as (upstream, url),
        proxy(url, prices=PRICES) as one,
        proxy(url, prices=PRICES) as two,
    ):
        for n in range(30):
            assert agent.call(two if n % 7 in (3, 4, 6) else one) == 200

    assert (upstream.refused, upstream.dropped) == (0, 0)
    assert was_edited(upstream)


def test_bypassed_calls() -> None:
    agent = Agent()
    with provider("drop") as (upstream, url), proxy(url, prices=PRICES) as running:
        agent.calls(running, 14)
        assert agent.call(running, x_agora_bypass="1") == 200
        agent.calls(running, 6)

    assert (upstream.refused, upstream.dropped) == (0, 0)


def test_a_rewind_and_a_fork() -> None:
    agent = Agent()
    with provider("drop") as (upstream, url), proxy(url, prices=PRICES) as running:
        agent.calls(running, 16)
        fork = Agent(messages=agent.messages[:21])
        agent.messages.append({"role": "user", "content": "And now the others."})
        for _ in range(5):
            assert fork.call(running) == 200
            assert agent.call(running) == 200

    assert (upstream.refused, upstream.dropped) == (0, 0)


def test_a_conversation_summarised_by_its_agent() -> None:
    agent = Agent()
    words = "Your task is to create a detailed summary of the conversation so far."
    with provider("drop") as (upstream, url), proxy(url, prices=PRICES) as running:
        agent.calls(running, 16)
        asked = Agent(
            messages=[
                *agent.messages[:-1],
                {
                    "role": "user",
                    "content": [*agent.messages[-1]["content"], {"type": "text", "text": words}],
                },
            ]
        )
        assert asked.call(running) == 200
        assert not is_edited(upstream.received[-1].body)
        agent.calls(running, 4)

    assert (upstream.refused, upstream.dropped) == (0, 0)
    assert was_edited(upstream)


def test_an_edit_that_is_refused_is_followed_by_the_original_without_thinking() -> None:
    agent = Agent()
    with provider("error") as (upstream, url), proxy(url, prices=PRICES) as running:
        agent.calls(running, 6)
        upstream.refuse_edited_by = "no good"
        agent.calls(running, 20)

    assert upstream.refused == 1
    assert upstream.received[-1].status == 200


def test_a_refusal_of_thinking_is_answered_once_by_the_same_edit_without_it() -> None:
    agent = Agent()
    with provider("error") as (upstream, url):
        agent.calls(Running(int(url.rpartition(":")[2])), 3)
        # Something between agent and provider rewrote the beginning.
        agent.messages[0] = {"role": "user", "content": "Read all of the files."}
        with proxy(url, prices=PRICES) as running:
            agent.calls(running, 3)

    assert upstream.refused <= 1


@pytest.mark.parametrize("deadline_ms", [1, 15])
def test_late_workers(deadline_ms: int) -> None:
    agent = Agent()
    with provider("drop") as (upstream, url):
        with proxy(url, prices=PRICES) as running:
            agent.calls(running, 8)
        with proxy(url, prices=PRICES, limits={"deadline_ms": deadline_ms}) as running:
            agent.calls(running, 22)

    assert (upstream.refused, upstream.dropped) == (0, 0)


@pytest.mark.skipif(os.name == "nt", reason="spawned processes are tried on POSIX only")
def test_a_worker_process_that_is_killed_in_the_middle() -> None:
    import multiprocessing

    agent = Agent()
    with (
        provider("drop") as (upstream, url),
        proxy(url, prices=PRICES, limits={"workers": 1}) as running,
    ):
        for _ in range(4):
            agent.calls(running, 6)
            for child in multiprocessing.active_children():
                child.kill()

    assert (upstream.refused, upstream.dropped) == (0, 0)
    assert was_edited(upstream)
