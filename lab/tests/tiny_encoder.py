"""A tiny encoder and labels that it can learn, made in a second."""

import random
from pathlib import Path
from typing import Any

from agora_lab.labels import Label

THINGS = [f"{name} {number}" for name in ("apple", "key", "box", "pen") for number in range(1, 6)]


def make_labels(tasks: int = 12, *, seed: int = 0) -> list[Label]:
    """Return labels that say: what names the thing that the current observation names is needed."""
    chance = random.Random(seed)
    labels = []
    for number in range(tasks):
        for anchor in (7, 8, 9):
            wanted = chance.choice(THINGS)
            seen = [wanted, *chance.sample([one for one in THINGS if one != wanted], 5)]
            chance.shuffle(seen)
            labels += [
                Label(
                    source="large" if number % 3 else "small",
                    task=str(number),
                    trajectory=str(number),
                    anchor=anchor,
                    candidate=at,
                    current=f"{wanted} needed",
                    action=f"look at {thing}",
                    observation=f"{thing} here",
                    label=float(thing == wanted),
                    kind="counterfactual",
                )
                for at, thing in enumerate(seen, start=1)
            ]
    return labels


def make_encoder(folder: Path, kind: str = "bert") -> Path:
    """Write a random encoder of two layers and a tokenizer that knows the words."""
    import torch
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
    from transformers import BertConfig, BertModel, RobertaConfig, RobertaModel

    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))  # noqa: S106
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(vocab_size=200, special_tokens=specials)
    words = [f"find {thing} look at needed here OBS TASK ACTION" for thing in THINGS]
    tokenizer.train_from_iterator([*words, "abcdefghijklmnopqrstuvwxyz"], trainer)
    sides = (("[CLS]", 2), ("[SEP]", 3))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=list(sides)
    )
    # As encoders come: with a length of their own, and padding to it.
    tokenizer.enable_truncation(16)
    tokenizer.enable_padding(length=16)
    shape: dict[str, Any] = {
        "vocab_size": 200,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "max_position_embeddings": 140,
        "pad_token_id": 0,
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        bert = kind == "bert"
        make: Any = BertModel if bert else RobertaModel
        encoder = make((BertConfig if bert else RobertaConfig)(**shape))
    encoder.save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder
