"""Selective Context (Li et al., 2023), after its paper: the most predictable words are dropped.

A causal language model gives each token its self-information, -log p. A word has the mean of its
tokens, and the words below a percentile of the whole history are dropped. The released package
(`selective-context` 0.1.4) pins spacy 3.2.0, which has no wheel for Python 3.11, so this is our
own code. The package takes spaCy's tokens and joins them to noun phrases by a trained model; here
the units are words and punctuation marks.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from agora import MissingExtraError
from agora_lab.methods.base import Messages, MethodSettings, Shortened, SkipMethod
from agora_lab.methods.token_level import cut_tokens

_WORD = re.compile(r"\s*(?:\w+|[^\w\s])")


class SelectiveContext:
    """Keeps the least predictable words of the past steps."""

    def __init__(
        self,
        settings: MethodSettings,
        *,
        weights: str | None = None,
        window: int = 512,
        bfloat16: bool = False,
    ) -> None:
        """Load the language model.

        Args:
            settings: The `keep_ratio` is the share of words to keep.
            weights: The model's folder, or a GGUF file. The paper's model is GPT-2.
            window: How many tokens the model reads at once.
            bfloat16: True to compute in 16 bits, which is faster with AMX.

        Raises:
            SkipMethod: There are no weights, or torch is not installed.
        """
        path = Path(weights or "")
        if weights is None or not path.exists():
            raise SkipMethod("weights absent: name a causal language model as weights=FOLDER")
        try:
            import torch
            from transformers import AutoModelForCausalLM, AutoTokenizer
        except ImportError as error:
            raise SkipMethod(str(MissingExtraError("it", "methods", "agora-lab"))) from error
        folder, options = (path.parent, {"gguf_file": path.name}) if path.is_file() else (path, {})
        self._torch: Any = torch
        self._tokenizer = AutoTokenizer.from_pretrained(str(folder), **options)
        model: Any = AutoModelForCausalLM.from_pretrained(str(folder), **options)
        self._model = model.to(torch.bfloat16 if bfloat16 else torch.float32).train(False)
        self._keep_ratio = settings.keep_ratio
        self._window = window
        # A step's text comes again at every later call of an episode.
        self._words = lru_cache(maxsize=4096)(lambda text: tuple(self._rated(text)))

    def shorten(self, messages: Messages) -> Shortened:
        """Return the messages with the predictable words of past steps dropped."""
        return cut_tokens(messages, self._cut)

    def _cut(self, texts: Sequence[str]) -> Sequence[str]:
        rated = [self._words(text) for text in texts]
        values = sorted(value for words in rated for _, value in words)
        least = values[min(int((1 - self._keep_ratio) * len(values)), len(values) - 1)]
        return ["".join(word for word, value in words if value >= least).strip() for words in rated]

    def _rated(self, text: str) -> Iterator[tuple[str, float]]:
        """Yield each word or punctuation mark with its mean self-information."""
        found = self._tokenizer(text, return_offsets_mapping=True, add_special_tokens=False)
        bits = self._self_information(found["input_ids"])
        offsets = found["offset_mapping"]
        at = 0
        for match in _WORD.finditer(text):
            own = []
            while at < len(offsets) and offsets[at][0] < match.end():
                own.append(bits[at])
                at += 1
            # A word inside a token of several words has that token's value.
            yield match[0], sum(own) / len(own) if own else bits[min(at, len(bits) - 1)]

    def _self_information(self, ids: Sequence[int]) -> list[float]:
        torch = self._torch
        bos = self._tokenizer.bos_token_id
        bos = self._tokenizer.eos_token_id if bos is None else bos
        bits: list[float] = []
        with torch.no_grad():
            for start in range(0, len(ids), self._window):
                piece = list(ids[start : start + self._window])
                before = [bos if bos is not None else piece[0]] if start == 0 else [ids[start - 1]]
                logits = self._model(torch.tensor([before + piece])).logits[0, :-1]
                logprobs = torch.log_softmax(logits.float(), dim=-1)
                targets = torch.tensor(piece).unsqueeze(-1)
                bits += (-logprobs.gather(-1, targets).squeeze(-1)).tolist()
        return bits
