"""The paper's method as it is written, through the library: a quarter of the prompt, every call."""

from collections.abc import Callable
from typing import Any

from agora import Compressor, load_scorer

TITLE = "the paper's method, every call"
SOURCE = "agora.Compressor.paper; BM25 stands for the trained scorer, whose weights are not public"
OURS = True
SETTINGS: dict[str, dict[str, Any]] = {"rho 0.25, BM25": {}}


def prepare(settings: dict[str, Any]) -> Callable[..., Any]:  # noqa: ARG001 - it has none
    """Return the hook."""
    compressor = Compressor.paper(load_scorer("bm25"))

    def edit(messages: list[dict[str, Any]], _about: dict[str, Any]) -> list[dict[str, Any]]:
        return list(compressor.compress(messages, format="openai").messages)

    return edit
