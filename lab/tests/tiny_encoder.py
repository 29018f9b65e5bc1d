"""A tiny encoder and labels that it can learn, made in a second."""

import random
from pathlib import Path
from typing import Any

from agora.core.trajectory import Anchor, Step
from agora_lab.train.questions import Question

THINGS = [f"{name} {number}" for name in ("apple", "key", "box", "pen") for number in range(1, 6)]


def make_questions(tasks: int = 12, *, seed: int = 0) -> list[Question]:
    """Return questions in which the steps that name what the anchor names were needed."""
    chance = random.Random(seed)
    questions = []
    for number in range(tasks):
        for _ in range(3):
            wanted = chance.choice(THINGS)
            seen = [wanted, *chance.sample([one for one in THINGS if one != wanted], 5)]
            chance.shuffle(seen)
            past = tuple(
                Step(number=at, action=f"look at {thing}", observation=f"{thing} here", tokens=9)
                for at, thing in enumerate(seen, start=1)
            )
            questions.append(
                Question(
                    anchor=Anchor(task=f"find {wanted}", observation=f"{wanted} needed"),
                    past=past,
                    candidates=tuple(range(len(past))),
                    labels=tuple(float(thing == wanted) for thing in seen),
                    task=f"{'large' if number % 3 else 'small'}/{number}",
                    source="large" if number % 3 else "small",
                )
            )
    return questions


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
