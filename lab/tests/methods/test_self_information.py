from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="language models in a folder need torch")
transformers = pytest.importorskip("transformers", reason="and transformers")
tokenizers = pytest.importorskip("tokenizers", reason="and tokenizers")

from agora_lab.methods.base import SkipMethod  # noqa: E402
from agora_lab.methods.self_information import LocalModel  # noqa: E402


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LocalModel:
    """A model of two small layers with weights by chance, and a tokenizer of bytes."""
    folder = tmp_path_factory.mktemp("model")
    letters = {letter: at for at, letter in enumerate(sorted(_bytes()))}
    bpe = tokenizers.Tokenizer(tokenizers.models.BPE(vocab={**letters, "<s>": 256}, merges=[]))
    bpe.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=bpe)
    fast.add_special_tokens({"bos_token": "<s>"})
    fast.save_pretrained(folder)
    torch.manual_seed(7)
    config = transformers.LlamaConfig(
        vocab_size=257,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        bos_token_id=256,
        max_position_embeddings=2_048,
    )
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    return LocalModel(folder)


@pytest.mark.parametrize("text", ["", "a", "go to shelf 1", "take the mug 3. " * 90])
def test_tokens_put_together_are_the_text_and_none_is_certain(model: LocalModel, text: str) -> None:
    found = model.bits(text)

    assert "".join(token for token, _ in found) == text
    assert all(bits > 0 for _, bits in found)


def test_bits_sum_to_the_loss_that_the_model_reports(model: LocalModel) -> None:
    text = "go to shelf 1"
    ids = [256, *model._tokenizer(text, add_special_tokens=False)["input_ids"]]
    given = torch.tensor([ids])
    with torch.inference_mode():
        nats = model._model(given, labels=given).loss.item() * len(text)

    assert sum(bits for _, bits in model.bits(text)) == pytest.approx(nats / 0.693147, rel=1e-4)


def test_half_a_character_is_scored_and_no_error(model: LocalModel) -> None:
    assert model.bits("mug \ud800 台")


def test_a_folder_without_a_model_is_skipped(tmp_path: Path) -> None:
    with pytest.raises(SkipMethod, match=r"no config\.json"):
        LocalModel(tmp_path)


def _bytes() -> set[str]:
    return set(tokenizers.pre_tokenizers.ByteLevel.alphabet())
