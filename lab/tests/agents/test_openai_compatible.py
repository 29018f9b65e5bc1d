import asyncio
import pickle
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lab.tests.backbones.loopback import SLOTS, Fault, Loopback

from agora_lab.agents import openai_compatible
from agora_lab.agents.answers import Answers
from agora_lab.agents.base import Answer, Messages
from agora_lab.agents.openai_compatible import (
    AsyncOpenAICompatible,
    OpenAICompatible,
    Sampling,
)
from agora_lab.agents.retries import BackboneError, RetryPolicy
from agora_lab.agents.scoring import TokenScore

QUICK = RetryPolicy(one_s=5, all_s=10, first_pause_s=0.001, longest_pause_s=0.002)
PROMPT: Messages = [
    {"role": "system", "content": "You walk through a house."},
    {"role": "user", "content": "Find the mug."},
]


def connect(server: Loopback, **given: object) -> OpenAICompatible:
    options = {"retry_policy": QUICK, **given}
    return OpenAICompatible(server.base_url, "double", **options)  # type: ignore[arg-type]


def answer(server: Loopback, waiting: bool, **given: object) -> Answer:
    """Ask by the client that waits or by the one that does not: both are to do the same."""

    async def ask() -> Answer:
        options = {"retry_policy": QUICK, **given}
        async with AsyncOpenAICompatible(
            server.base_url,
            "double",
            **options,  # type: ignore[arg-type]
        ) as backbone:
            return await backbone.answer(PROMPT)

    return connect(server, **given).answer(PROMPT) if waiting else asyncio.run(ask())


def score(server: Loopback, text: str) -> tuple[TokenScore, ...]:
    async def ask() -> tuple[TokenScore, ...]:
        async with AsyncOpenAICompatible(server.base_url, "double", retry_policy=QUICK) as backbone:
            return await backbone.score(PROMPT, text)

    return asyncio.run(ask())


both_clients = pytest.mark.parametrize("waiting", [True, False], ids=["blocking", "asynchronous"])


def test_an_answer_carries_what_the_server_counted(server: Loopback) -> None:
    backbone = connect(server)

    assert backbone.answer(PROMPT) == Answer(
        text="heard 8 words", input_tokens=8, output_tokens=3, cached_tokens=0, finish="stop"
    )
    assert backbone.answer(PROMPT).cached_tokens == 7


def test_the_request_says_temperature_0_and_a_seed_unless_told_otherwise(server: Loopback) -> None:
    connect(server).answer(PROMPT)
    connect(
        server, sampling=Sampling(temperature=1.0, seed=None, max_tokens=2, stop=("\n",))
    ).answer(PROMPT)

    assert b'"temperature":0.0' in server.bodies[0]
    assert b'"seed":0' in server.bodies[0]
    assert b'"temperature":1.0' in server.bodies[1]
    assert b"seed" not in server.bodies[1]
    assert b'"stop":["\\n"]' in server.bodies[1]


def test_an_answer_that_was_cut_off_says_so(server: Loopback) -> None:
    reply = connect(server, sampling=Sampling(max_tokens=2)).chat(PROMPT)

    assert reply.choices[0].finish == "length"


def test_samples_come_in_one_request(server: Loopback) -> None:
    reply = connect(server).chat(PROMPT, samples=SLOTS)

    assert [choice.text for choice in reply.choices] == ["heard 8 words"] * SLOTS
    assert len(server.bodies) == 1


def test_a_refusal_is_told_in_the_servers_words_and_not_tried_again(server: Loopback) -> None:
    with pytest.raises(BackboneError, match=r"status 400: Field 'n'.*but got 3") as caught:
        connect(server).chat(PROMPT, samples=3)

    assert len(server.bodies) == 1
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize(
    "fault",
    [
        Fault(),
        Fault(status=429, body=b"slow down", headers=(("retry-after", "0.001"),)),
        Fault(status=500, body=b"[]"),
        Fault(status=502, body=b"<html>", headers=(("retry-after", "tomorrow"),)),
        Fault(cut=True),
    ],
    ids=["loading", "too many", "failed", "gateway", "cut off"],
)
@both_clients
def test_a_passing_failure_is_tried_again(server: Loopback, fault: Fault, waiting: bool) -> None:
    server.faults.extend([fault, fault])

    assert answer(server, waiting).text == "heard 8 words"
    assert len(server.bodies) == 3


@both_clients
def test_a_lasting_failure_ends_with_the_tries_and_says_what_was_heard(
    server: Loopback, waiting: bool
) -> None:
    server.faults.extend([Fault()] * 9)

    with pytest.raises(
        BackboneError, match=r"in 6 tries and .* of 10; last problem: status 503: Load"
    ):
        answer(server, waiting)

    assert len(server.bodies) == 6


@pytest.mark.parametrize(
    "fault", [Fault(hang_s=2.0), Fault(dribble_s=0.05)], ids=["silent", "dribbling"]
)
@both_clients
def test_all_tries_together_end_within_their_seconds(
    server: Loopback, fault: Fault, waiting: bool
) -> None:
    server.faults.extend([fault] * 20)
    retry_policy = RetryPolicy(one_s=0.2, all_s=0.7, tries=20, first_pause_s=0.01)

    started = time.monotonic()
    with pytest.raises(BackboneError, match=r"(no answer|answer incomplete) after 0\.[012]"):
        answer(server, waiting, retry_policy=retry_policy)

    assert time.monotonic() - started < 5


def test_a_server_that_asks_for_more_time_than_there_is_is_not_waited_for(
    server: Loopback,
) -> None:
    server.faults.append(Fault(status=429, headers=(("retry-after", "3600"),)))

    with pytest.raises(BackboneError, match=r"in 1 try .*status 429"):
        connect(server).answer(PROMPT)


@both_clients
def test_a_server_that_is_not_there_is_named(server: Loopback, waiting: bool) -> None:
    server.base_url = "http://127.0.0.1:9/v1"

    with pytest.raises(BackboneError, match=r"http://127\.0\.0\.1:9/v1/.* in 2 tries .*Connect"):
        answer(server, waiting, retry_policy=RetryPolicy(tries=2, first_pause_s=0.001))


@both_clients
def test_a_server_that_sends_elsewhere_is_not_followed(server: Loopback, waiting: bool) -> None:
    server.faults.append(
        Fault(status=307, body=b"{}", headers=(("location", server.base_url + "/x"),))
    )

    with pytest.raises(BackboneError, match="status 307"):
        answer(server, waiting)
    assert len(server.bodies) == 1


@both_clients
def test_an_answer_without_end_costs_no_memory(
    server: Loopback, waiting: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openai_compatible, "_MOST_BYTES", 1_000_000)
    server.faults.extend([Fault(status=200, body=b" " * 3_000_000)] * 2)

    with pytest.raises(BackboneError, match="more than 1,000,000 bytes"):
        answer(server, waiting, retry_policy=RetryPolicy(tries=2, first_pause_s=0.001))


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[]", b"{}", b'{"choices":[]}', b'{"choices":[{"message":null}]}']
)
def test_an_answer_that_is_none_is_an_error_and_is_not_kept(
    server: Loopback, tmp_path: Path, body: bytes
) -> None:
    server.faults.append(Fault(status=200, body=body))
    backbone = connect(server, answers=Answers(tmp_path))

    with pytest.raises(BackboneError, match=r"unusable answer|did not answer"):
        backbone.answer(PROMPT)
    assert backbone.answer(PROMPT).text == "heard 8 words"


@both_clients
def test_a_key_goes_into_the_header_and_nowhere_else(
    server: Loopback, tmp_path: Path, waiting: bool
) -> None:
    answer(server, waiting, api_key="secret-1", answers=Answers(tmp_path))

    sent = {name.lower(): value for name, value in server.headers[0].items()}
    assert sent["authorization"] == "Bearer secret-1"
    assert b"secret-1" not in server.bodies[0]
    assert all("secret-1" not in file.read_text() for file in tmp_path.rglob("*.json"))


def test_what_was_answered_once_is_not_asked_again(server: Loopback, tmp_path: Path) -> None:
    first = connect(server, answers=Answers(tmp_path)).chat(PROMPT, samples=2)
    again = connect(server, answers=Answers(tmp_path)).chat(PROMPT, samples=2)

    assert again == first
    assert len(server.bodies) == 1


@pytest.mark.parametrize(
    "changed",
    [Sampling(temperature=0.1), Sampling(seed=1), Sampling(max_tokens=65), Sampling(stop=("x",))],
)
def test_whatever_changes_the_request_is_asked_anew(
    server: Loopback, tmp_path: Path, changed: Sampling
) -> None:
    connect(server, answers=Answers(tmp_path)).answer(PROMPT)
    connect(server, answers=Answers(tmp_path), sampling=changed).answer(PROMPT)
    connect(server, answers=Answers(tmp_path)).answer(PROMPT[1:])
    OpenAICompatible(server.base_url, "other", answers=Answers(tmp_path)).answer(PROMPT)

    assert len(server.bodies) == 4


def test_no_more_are_asked_at_once_than_allowed(server: Loopback) -> None:
    server.slow_s = 0.1
    backbone = connect(server, concurrency=3)
    prompts = [[{"role": "user", "content": str(n)}] for n in range(12)]

    with ThreadPoolExecutor(12) as pool:
        list(pool.map(backbone.answer, prompts))

    assert server.most_at_once == 3


def test_both_clients_ask_the_same_bytes(server: Loopback, tmp_path: Path) -> None:
    answers = Answers(tmp_path)

    async def ask() -> None:
        async with AsyncOpenAICompatible(server.base_url, "double", answers=answers) as backbone:
            assert await backbone.answer(PROMPT) == waited
            assert await backbone.chat(PROMPT, samples=2) == both

    backbone = connect(server, answers=answers)
    waited, both = backbone.answer(PROMPT), backbone.chat(PROMPT, samples=2)
    asked = len(server.bodies)
    asyncio.run(ask())

    assert len(server.bodies) == asked


def test_the_scores_of_a_text_are_those_of_its_tokens_in_order(server: Loopback) -> None:
    @settings(max_examples=60, deadline=None)
    @given(text=st.text(st.characters(codec="utf-8", exclude_characters='"\\'), max_size=30))
    def check(text: str) -> None:
        scores = score(server, text)

        assert "".join(score.text for score in scores) == text
        assert all(score.logprob < 0 for score in scores)

    check()


def test_a_long_text_is_scored_in_pieces_that_go_on_from_each_other(server: Loopback) -> None:
    text = "the mug and the desk and " * 40

    whole = score(server, text)

    assert "".join(one.text for one in whole) == text
    # A template, two tokenizations and pieces of at most 256 tokens.
    assert len(server.bodies) == 3 + 4


def test_a_server_that_does_not_write_what_it_must_is_found_out(server: Loopback) -> None:
    template = b'{"prompt":"<|im_start|>assistant"}'
    tokens = b'{"tokens":[{"id":1,"piece":"look"}]}'
    wrong = b'{"completion_probabilities":[{"id":7,"bytes":[120],"logprob":-1.0}]}'
    server.faults.extend(
        [Fault(status=200, body=body) for body in (template, tokens, tokens, wrong)]
    )

    with pytest.raises(BackboneError, match="wrote 1 bytes that differ from"):
        score(server, "look")
