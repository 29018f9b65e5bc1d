"""Token-level methods with tiny random weights of the same shape as their models."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agora_lab.chats import text_of
from agora_lab.methods import MethodSettings, SkipMethod, method

TOKEN_LEVEL = ("selective_context", "long_llmlingua", "llmlingua2", "llmlingua2_retrained")
CHAT: list[dict[str, Any]] = [
    {"role": "system", "content": "You act in a house."},
    {"role": "user", "content": "Find the apple."},
]
for _number in range(6):
    _seen = f"On the countertop {_number} you see an apple {_number}, a bread 1 and a knife 1."
    CHAT.append({"role": "assistant", "content": f"go to countertop {_number}"})
    CHAT.append({"role": "user", "content": _seen})


def units(message: Mapping[str, Any]) -> list[str]:
    return re.findall(r"\w+|[^\w\s]", text_of(message))


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("weights")
    special = {
        "unk_token": "[UNK]",
        "pad_token": "[PAD]",
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
        "mask_token": "[MASK]",
        "bos_token": "<s>",
        "eos_token": "</s>",
    }
    bpe = tokenizers.Tokenizer(tokenizers.models.BPE())
    bpe.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=list(special.values()),
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
    )
    bpe.train_from_iterator([text_of(message) for message in CHAT], trainer)
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=bpe, **special)
    size = {"vocab_size": len(tokenizer)}
    causal = transformers.GPT2LMHeadModel(
        transformers.GPT2Config(n_embd=32, n_layer=2, n_head=2, **size)
    )
    classifier = transformers.BertForTokenClassification(
        transformers.BertConfig(
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=64,
            num_labels=2,
            **size,
        )
    )
    paths = {
        "selective_context": folder / "gpt2",
        "long_llmlingua": folder / "gpt2",
        "llmlingua2": folder / "bert-base-multilingual-cased",
        "llmlingua2_retrained": folder / "bert-base-multilingual-cased",
    }
    for path, model in ((folder / "gpt2", causal), (paths["llmlingua2"], classifier)):
        model.save_pretrained(path)
        tokenizer.save_pretrained(path)
    return paths


@pytest.mark.parametrize("name", TOKEN_LEVEL)
def test_without_weights_the_table_says_so(name: str) -> None:
    for options in ({}, {"weights": "/nowhere"}):
        with pytest.raises(SkipMethod, match=r"weights absent: .*weights=FOLDER"):
            method(name, MethodSettings(options=options))


@pytest.mark.parametrize("name", TOKEN_LEVEL)
def test_past_steps_lose_tokens_and_the_rest_stays(name: str, weights: dict[str, Path]) -> None:
    if name != "selective_context":
        pytest.importorskip("llmlingua")
    shortener = method(name, MethodSettings(options={"weights": str(weights[name])}))

    sent = list(shortener.shorten(CHAT).messages)
    short = shortener.shorten(CHAT[:2])

    past = sum(len(text_of(message)) for message in CHAT[2:-2])
    left = sum(len(text_of(message)) for message in sent) - sum(
        len(text_of(message)) for message in (*CHAT[:2], *CHAT[-2:])
    )
    assert sent[0] == CHAT[0]
    assert text_of(sent[1]).startswith("Find the apple.")
    assert sent[-2:] == CHAT[-2:]
    assert 0 < left < 0.6 * past
    assert shortener.shorten(CHAT).messages == sent
    assert all(text_of(message) for message in sent)
    assert short.messages == CHAT[:2]
    assert short.detail


def test_selective_context_keeps_the_least_predictable_words(weights: dict[str, Path]) -> None:
    options = {"weights": str(weights["selective_context"])}
    everything = method("selective_context", MethodSettings(keep_ratio=1.0, options=options))
    half = method("selective_context", MethodSettings(keep_ratio=0.5, options=options))

    assert everything.shorten(CHAT).messages == CHAT
    words = [w for m in half.shorten(CHAT).messages[2:-2] for w in units(m)]
    total = [w for m in CHAT[2:-2] for w in units(m)]
    assert 0.4 * len(total) <= len(words) <= 0.6 * len(total)
