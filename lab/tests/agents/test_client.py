import asyncio
import pickle
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from lab.tests.agents.provider import INPUT, OUTPUT, Fault, Provider

from agora_lab.agents import BackboneError, backbone
from agora_lab.agents.base import Messages
from agora_lab.agents.client import ModelClient, Reply, Sampling
from agora_lab.agents.purse import NoPriceError, Prices, Purse, PurseEmptyError

PROMPT: Messages = [
    {"role": "system", "content": "You walk through a house."},
    {"role": "user", "content": "Find the mug."},
]
PRICES = Prices(INPUT, OUTPUT)


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider() as made:
        yield made


def connect(provider: Provider, **options: Any) -> ModelClient:
    return ModelClient("some-model", base_url=provider.base_url, **options)


def chat(provider: Provider, *, samples: int = 1, **options: Any) -> Reply:
    async def ask() -> Reply:
        async with connect(provider, **options) as client:
            return await client.chat(PROMPT, samples=samples)

    return asyncio.run(ask())


def test_key_and_address_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with Provider(keys={"sk-canary"}) as provider:
        monkeypatch.setenv("OPENAI_BASE_URL", provider.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-canary")

        made = backbone("openai:some-model")
        assert isinstance(made, ModelClient)
        answer = made.answer(PROMPT)
        made.close()

    assert answer.text == "heard 8 words"
    assert answer.input_tokens > 8
    assert answer.output_tokens == 3
    assert answer.finish == "stop"


def test_a_key_given_as_an_argument_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-other")
    with Provider(keys={"sk-mine"}) as provider:
        assert chat(provider, api_key="sk-mine").texts == ("heard 8 words",)
        with pytest.raises(BackboneError, match=r"status 401: .*Incorrect API key") as caught:
            chat(provider)

    assert len(provider.bodies) == 2
    assert "sk-other" not in str(caught.value)


def test_without_a_key_openais_own_address_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)

    with pytest.raises(BackboneError, match="OPENAI_API_KEY"):
        backbone("openai:some-model")


def test_a_request_has_temperature_0_and_a_seed_unless_told_otherwise(provider: Provider) -> None:
    chat(provider)
    chat(provider, sampling=Sampling(temperature=1.0, seed=None, max_tokens=2, stop=("\n",)))

    assert provider.bodies[0]["temperature"] == 0.0
    assert provider.bodies[0]["seed"] == 0
    assert provider.bodies[1]["temperature"] == 1.0
    assert provider.bodies[1]["stop"] == ["\n"]
    assert "seed" not in provider.bodies[1]


def test_parameters_that_a_model_refuses_are_dropped_and_remembered() -> None:
    with Provider(refuses={"temperature", "seed", "max_tokens"}) as provider:

        async def ask() -> ModelClient:
            async with connect(provider) as client:
                for _ in range(2):
                    await client.chat(PROMPT)
                return client

        client = asyncio.run(ask())

    assert client.refused == {"temperature", "seed", "max_tokens"}
    assert provider.bodies[-1].keys() == {"model", "messages", "max_completion_tokens"}
    assert len(provider.bodies) == 3 + 1 + 1


def test_a_refused_message_is_an_error_at_once() -> None:
    with (
        Provider(refuses={"messages"}) as provider,
        pytest.raises(BackboneError, match="refused the request with status 400") as caught,
    ):
        chat(provider)

    assert len(provider.bodies) == 1
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_samples_come_in_one_request_or_in_as_many_as_the_server_needs() -> None:
    with Provider(most_samples=3) as provider:
        reply = chat(provider, samples=8)
    counts = [body.get("n", 1) for body in provider.bodies]

    assert reply.texts == ("heard 8 words",) * 8
    assert counts == [8, 4, 2, 2, 2, 2]
    assert len({body["seed"] for body in provider.bodies[2:]}) == 4
    assert reply.attempts == 6


@pytest.mark.parametrize("fault", [Fault(429), Fault(503), Fault(), Fault(half=True)])
def test_a_failed_try_is_repeated(provider: Provider, fault: Fault) -> None:
    provider.faults.append(fault)

    assert chat(provider).attempts == 2


def test_tries_are_bounded(provider: Provider) -> None:
    provider.faults.extend([Fault(503)] * 9)

    with pytest.raises(BackboneError, match=r"gave no answer in 3 tries.*not now"):
        chat(provider, max_retries=2)
    assert len(provider.bodies) == 3


def test_a_server_that_hangs_is_given_up_after_the_timeout(provider: Provider) -> None:
    provider.faults.append(Fault(hang_s=2))

    with pytest.raises(BackboneError, match=r"gave no answer in 1 try"):
        chat(provider, timeout_s=0.05, max_retries=0)


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"choices": []}', b'{"id": 1}'])
def test_an_unusable_answer_is_an_error(provider: Provider, body: bytes) -> None:
    provider.faults.append(Fault(body=body))

    with pytest.raises(BackboneError, match=r"127\.0\.0\.1"):
        chat(provider)


def test_no_more_requests_are_in_flight_than_allowed() -> None:
    with Provider(latency_s=0.02) as provider:

        async def ask() -> None:
            async with connect(provider, concurrency=3) as client:
                await asyncio.gather(*(client.chat(PROMPT) for _ in range(12)))

        asyncio.run(ask())

    assert provider.most_at_once == 3


def test_a_purse_counts_what_the_provider_bills(provider: Provider) -> None:
    purse = Purse(1.0)

    chat(provider, purse=purse, prices=PRICES)

    assert purse.spent == pytest.approx(provider.billed, abs=1e-8)
    assert purse.calls == 1


def test_a_call_that_could_pass_the_cap_is_not_sent(provider: Provider) -> None:
    with pytest.raises(PurseEmptyError, match="--max-dollars"):
        chat(provider, purse=Purse(0.001), prices=PRICES)

    assert not provider.bodies


def test_a_model_without_known_prices_has_no_purse(provider: Provider) -> None:
    with pytest.raises(NoPriceError, match="--dollars-per-million"):
        connect(provider, purse=Purse(1.0))


def test_a_purse_on_disk_is_shared_and_survives(tmp_path: Path) -> None:
    purse = Purse(1.0, tmp_path / "purse")
    other = pickle.loads(pickle.dumps(purse))
    purse.reserve(0.6)

    with pytest.raises(PurseEmptyError):
        other.reserve(0.6)
    purse.settle(0.6, 0.1)
    other.reserve(0.6)

    assert Purse(1.0, tmp_path / "purse").spent == pytest.approx(0.7)


async def _spend(provider: Provider, chance: Random) -> None:
    """Ask until the purse is empty, with many calls in flight."""
    purse = Purse(chance.uniform(0.01, 0.04))
    before = provider.billed
    sampling = Sampling(max_tokens=chance.randint(1, 200))
    async with connect(
        provider, purse=purse, prices=PRICES, sampling=sampling, max_retries=1, concurrency=6
    ) as client:
        calls = [client.chat(PROMPT, samples=chance.randint(1, 3)) for _ in range(12)]
        ends = await asyncio.gather(*calls, return_exceptions=True)
    odd = [end for end in ends if not isinstance(end, Reply | BackboneError | PurseEmptyError)]
    assert not odd
    assert provider.billed - before <= purse.max_dollars


def _spend_often(runs: int) -> None:
    chance = Random(runs)
    with Provider(chance=Random(7)) as provider:

        async def spend() -> None:
            for _ in range(runs):
                await _spend(provider, chance)

        asyncio.run(spend())
    assert len(provider.bodies) > 2 * runs


def test_no_purse_is_passed_whatever_fails() -> None:
    _spend_often(12)


@pytest.mark.long
def test_no_purse_is_passed_in_1000_runs() -> None:
    _spend_often(1_000)


class Parrot:
    """A backbone from outside this package, as a user would write one."""

    def __init__(self, environment: str, word: str = "look") -> None:
        self._word = f"{word} {environment}"

    def answer(self, messages: Messages) -> Any:
        from agora_lab.agents import Answer

        return Answer(text=self._word)


def test_a_backbone_from_outside_takes_one_file() -> None:
    made = backbone(f"{__name__}:Parrot", environment="alfworld", word="see")

    assert made.answer(PROMPT).text == "see alfworld"


@pytest.mark.parametrize("spec", ["scripted:x", "openai:", "gpt-4o", "no.module:here", ":"])
def test_an_unknown_backbone_is_an_error_that_names_the_known_ones(spec: str) -> None:
    with pytest.raises(BackboneError, match=r"openai:MODEL"):
        backbone(spec)


def test_the_scripted_backbone_is_the_environments_own() -> None:
    assert backbone("scripted", environment="webshop").answer(PROMPT).text
    with pytest.raises(BackboneError, match="alfworld"):
        backbone("scripted", environment="elsewhere")
