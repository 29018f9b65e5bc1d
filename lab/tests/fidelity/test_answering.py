from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def model() -> Any:
    torch.manual_seed(0)
    config = transformers.Qwen2Config(
        vocab_size=40,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
    )
    return transformers.Qwen2ForCausalLM(config).eval()


def plainly(model: Any, prompt: list[int], choice: list[int]) -> float:
    """Return the nats of a continuation from one pass over all of it."""
    with torch.inference_mode():
        logits = model(torch.tensor([[*prompt, *choice]])).logits[0].log_softmax(-1)
    places = range(len(prompt) - 1, len(prompt) + len(choice) - 1)
    return -sum(float(logits[at, token]) for at, token in zip(places, choice, strict=True))


PROMPTS = ([1, 2, 3, 4, 5, 6, 7], [1, 2, 3, 9, 9], [1, 2, 3, 9, 9, 8], [1], [5, 4, 3, 2, 1, 0])
CHOICES = [[3], [4, 5, 6], [7, 8], [9, 9, 9, 9, 9]]


@pytest.mark.parametrize("chunk", [2, 2048])
def test_choices_read_together_are_as_likely_as_each_alone(model: Any, chunk: int) -> None:
    from agora_lab.fidelity.answering import Answering
    from agora_lab.fidelity.attention import NAME

    # As the judge's models are loaded: their attention reads one sequence at a time.
    model.set_attn_implementation(NAME)
    answers = Answering(model, chunk_tokens=chunk)

    for prompt in PROMPTS:
        wanted = [plainly(model, prompt, choice) for choice in CHOICES]
        assert answers.choose(prompt, CHOICES) == pytest.approx(wanted, abs=1e-3)
        assert answers.choose(prompt, [[3], [2]])[0] == pytest.approx(wanted[0], abs=1e-3)


def test_its_own_answer_is_the_likeliest_token_each_time_and_ends(model: Any) -> None:
    from agora_lab.fidelity.answering import Answering

    answers = Answering(model)
    for prompt in PROMPTS:
        said = answers.answer(prompt, max_tokens=5)
        token_ids = list(prompt)
        for token in said:
            with torch.inference_mode():
                assert token == int(model(torch.tensor([token_ids])).logits[0, -1].argmax())
            token_ids.append(token)
        assert len(said) == 5
        assert answers.answer(prompt, max_tokens=5, ends=frozenset(said[:1])) == []


def test_a_model_answers_the_probes_of_a_run_under_every_prompt(tmp_path: Path) -> None:
    from lab.harness.fidelity_run import write_run
    from lab.harness.tiny_judge import tiny_model, tiny_tokenizer

    from agora_lab.fidelity.answering import Answering
    from agora_lab.fidelity.probes import plan, run
    from agora_lab.fidelity.rendering import Rendering

    folder = write_run(tmp_path / "run", tasks=3, per_task=1, steps=6)
    (folder / "probes.jsonl").unlink()
    planned = plan(folder, half="", probes=2, each=1, worded=1)
    tokenizer = tiny_tokenizer()
    ends = frozenset({tokenizer.eos_token_id})
    methods = ("everything", "floor", "newest@0.25", "default@0.25")
    asked = run(
        folder,
        planned,
        Answering(tiny_model()),
        Rendering(tokenizer),
        methods=methods,
        ends=ends,
    )
    found = list(asked)

    assert len(found) == 2 * len(methods)
    assert all(min(one.nats) > 0 for one in found)
    assert sum(one.said is not None for one in found) == len(methods)
    # Another prompt, another likelihood: what is asked depends on what was sent.
    assert len({one.nats for one in found if one.probe == found[0].probe}) > 1
