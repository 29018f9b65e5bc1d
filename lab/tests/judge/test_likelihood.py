import os
import random
from pathlib import Path

import pytest
import torch
from lab.harness.tiny_judge import tiny_model, tiny_tokenizer

from agora_lab.judge.likelihood import Likelihood, load
from agora_lab.judge.weights import WeightsError, prepare


def token_ids(count: int, seed: int = 0) -> list[int]:
    return random.Random(seed).choices(range(256), k=count)


def plain(model: object, prompt: list[int], continuation: list[int]) -> list[float]:
    """The nats by one pass over everything, with all logits."""
    with torch.inference_mode():
        logits = model(torch.tensor([prompt + continuation])).logits[0].float()  # type: ignore[operator]
    chances = torch.log_softmax(logits, -1)
    return [-float(chances[len(prompt) - 1 + at, token]) for at, token in enumerate(continuation)]


@pytest.mark.parametrize("chunk", [1, 7, 64, 4_096])
def test_nats_are_those_of_one_pass_whatever_the_chunks(chunk: int) -> None:
    model = tiny_model()
    prompt, said = token_ids(150), token_ids(12, 1)

    found = Likelihood(model, chunk_tokens=chunk).score(prompt, said)

    assert found.nats == pytest.approx(plain(model, prompt, said), abs=1e-3)
    assert found.read_tokens == len(prompt) + len(said) - 1


def test_a_remembered_prefix_gives_the_same_nats_and_is_not_read_again() -> None:
    model = tiny_model()
    judge = Likelihood(model, chunk_tokens=32)
    shared, said = token_ids(100), token_ids(9, 1)
    chance = random.Random(2)
    for _ in range(12):
        kept = chance.randrange(101)
        prompt = shared[:kept] + token_ids(chance.randrange(1, 40), chance.randrange(99))
        found = judge.score(prompt, said)
        assert found.nats == pytest.approx(plain(model, prompt, said), abs=1e-3)
        again = judge.score(prompt, said)
        assert again.nats == pytest.approx(found.nats, abs=1e-3)
        assert again.read_tokens == len(said)
    longer = judge.score(shared, said)
    after = judge.score([*shared, 1, 2, 3], said)

    assert longer.read_tokens < len(shared) + len(said)
    assert after.read_tokens == len(said) + 3 - 1


def test_what_is_remembered_is_bounded_and_the_least_used_goes() -> None:
    judge = Likelihood(tiny_model(), remembered_tokens=100)
    first, second, third = (token_ids(60, seed) for seed in (1, 2, 3))
    for prompt in (first, second, third):
        judge.score(prompt, [5])

    assert judge.score(third, [5]).read_tokens == 1
    assert judge.score(first, [5]).read_tokens == len(first)
    judge.forget()
    assert judge.score(first, [5]).read_tokens == len(first)


def test_a_folder_is_loaded_with_its_tokenizer(tmp_path: Path) -> None:
    tiny_model().save_pretrained(tmp_path / "model")
    tiny_tokenizer().save_pretrained(tmp_path / "model")
    prompt, said = token_ids(40), token_ids(5, 1)
    exact = plain(tiny_model(), prompt, said)

    judge, tokenizer = load(tmp_path / "model", threads=1)

    assert sum(judge.score(prompt, said).nats) == pytest.approx(sum(exact), rel=0.1)
    assert tokenizer("a")["input_ids"]


def test_what_is_no_model_is_refused_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="holds no model"):
        load(tmp_path)
    with pytest.raises(WeightsError, match="does not exist; give the path of a GGUF file"):
        prepare(tmp_path / "no.gguf", tmp_path / "out")
    (tmp_path / "bad.gguf").write_bytes(b"nothing")
    with pytest.raises(WeightsError, match="cannot be loaded by transformers"):
        prepare(tmp_path / "bad.gguf", tmp_path / "out")
    assert prepare(tmp_path / "no.gguf", tmp_path) == tmp_path


@pytest.mark.skipif("AGORA_SMOLLM2" not in os.environ, reason="names no folder of SmolLM2")
def test_smollm2_says_the_same_with_and_without_a_remembered_prefix() -> None:
    judge, tokenizer = load(Path(os.environ["AGORA_SMOLLM2"]), threads=1)
    said = tokenizer(" Paris")["input_ids"]
    short = tokenizer("The capital of France is")["input_ids"]
    told = tokenizer("Berlin is in Germany. The capital of France is")["input_ids"]
    cold = [judge.score(short, said).nats]
    judge.forget()
    judge.score(told, said)
    warm = [judge.score(short, said).nats, judge.score(short, said).nats]

    assert warm[0] == pytest.approx(cold[0], abs=0.01)
    assert warm[1] == pytest.approx(cold[0], abs=0.01)
    assert sum(cold[0]) < 5
