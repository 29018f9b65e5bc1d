"""LongLLMLingua and LLMLingua-2, from the released package `llmlingua`.

Their models cannot be downloaded here, so a folder with weights has to be named.
"""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any
from unittest import mock

from agora import MissingExtraError
from agora_lab.methods.base import Messages, MethodSettings, Shortened, SkipMethod
from agora_lab.methods.token_level import cut_history, cut_tokens


class LLMLingua2:
    """Drops the tokens that a trained classifier finds least important.

    The folder's name must contain `xlm-roberta-large` or `bert-base-multilingual-cased`, as the
    released models' names do. The package selects the tokenizer by it.
    """

    def __init__(
        self, settings: MethodSettings, *, weights: str | None = None, retrained: bool = False
    ) -> None:
        """Load the classifier.

        Args:
            settings: The `keep_ratio` is the package's `rate`.
            weights: The model's folder.
            retrained: True if a classifier retrained on agents' prompts at 4x is expected.

        Raises:
            SkipMethod: There are no weights, or the package is not installed.
        """
        what = "an LLMLingua-2 classifier"
        what = f"{what} retrained on agents' prompts" if retrained else what
        self._compressor = _compressor(weights, what, use_llmlingua2=True)
        self._rate = settings.keep_ratio
        # A step's text comes again at every later call of an episode.
        self._shorter = lru_cache(maxsize=4096)(self._compressed)

    def shorten(self, messages: Messages) -> Shortened:
        """Return the messages with the tokens of past steps dropped."""
        return cut_tokens(messages, lambda texts: [self._shorter(text) for text in texts])

    def _compressed(self, text: str) -> str:
        found = self._compressor.compress_prompt([text], rate=self._rate)
        return str(found["compressed_prompt"])


class LongLLMLingua:
    """Drops the tokens a language model expects anyway, given the newest observation.

    The package's documented setting: texts are ranked by how likely they make the question, and
    the more relevant ones keep more of their tokens.
    """

    def __init__(self, settings: MethodSettings, *, weights: str | None = None) -> None:
        """Load the language model.

        Raises:
            SkipMethod: There are no weights, or the package is not installed.
        """
        self._compressor = _compressor(weights, "a causal language model for LongLLMLingua")
        self._rate = settings.keep_ratio

    def shorten(self, messages: Messages) -> Shortened:
        """Return the messages with the past steps as one shorter text."""
        return cut_history(messages, self._cut)

    def _cut(self, texts: Sequence[str], question: str) -> str:
        found = self._compressor.compress_prompt(
            list(texts),
            question=question,
            rate=self._rate,
            rank_method="longllmlingua",
            condition_in_question="after_condition",
            condition_compare=True,
            reorder_context="original",
            dynamic_context_compression_ratio=0.3,
            concate_question=False,
        )
        return str(found["compressed_prompt"])


def _compressor(weights: str | None, what: str, **options: Any) -> Any:
    if weights is None or not Path(weights).is_dir():
        raise SkipMethod(f"weights absent: name the folder of {what} as weights=FOLDER")
    try:
        import tiktoken
        from llmlingua import PromptCompressor
    except ImportError as error:
        raise SkipMethod(str(MissingExtraError("it", "methods", "agora-lab"))) from error
    # The package counts tokens for its report with a tokenizer that it would download.
    with mock.patch.object(tiktoken, "encoding_for_model", return_value=_Words()):
        return PromptCompressor(weights, device_map="cpu", **options)


class _Words:
    """Counts words in the place of OpenAI's tokens."""

    def encode(self, text: str, **_: object) -> list[str]:
        """Return the words."""
        return text.split()
