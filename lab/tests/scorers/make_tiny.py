"""Writes the tiny encoder that the product's tests serve: python -m lab.tests.scorers.make_tiny"""

from pathlib import Path
from typing import Any

import tokenizers
import torch
from transformers import BertConfig, BertModel

from agora_lab.training.embedding import _Pooled
from agora_lab.training.export import export

TINY = Path(__file__).parents[3] / "tests" / "scorers" / "tiny_encoder"
WIDTH = 32


def vocabulary() -> dict[str, int]:
    """Return the words of the tests and their letters.

    Written down instead of trained: a trainer breaks ties by hash order, so two runs disagree.
    """
    words = "action obs look box holds dust and key 0123456789".split()
    letters = sorted({letter for word in words for letter in word})
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *letters, *(f"##{each}" for each in letters)]
    return {piece: place for place, piece in enumerate([*pieces, *words])}


def make_model() -> tuple[bytes, bytes]:
    """Return an encoder of two layers with random weights, and a tokenizer."""
    torch.manual_seed(0)
    tokenizer = tokenizers.Tokenizer(
        tokenizers.models.WordPiece(vocabulary(), unk_token="[UNK]")  # noqa: S106
    )
    tokenizer.normalizer = tokenizers.normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = tokenizers.processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    config = BertConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=WIDTH,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
    )
    make: Any = BertModel._from_config
    model = make(config, attn_implementation="eager")
    return export(_Pooled(model)), tokenizer.to_str().encode()


def main() -> None:
    TINY.mkdir(exist_ok=True)
    model, tokenizer = make_model()
    (TINY / "model.onnx").write_bytes(model)
    (TINY / "tokenizer.json").write_bytes(tokenizer)


if __name__ == "__main__":
    main()
