"""Backbones decide on an agent's next action: language models and scripted programs."""

import importlib
from typing import Any

from agora_lab.agents.base import (
    Answer,
    Backbone,
    BackboneError,
    Messages,
    prompt_text,
)

__all__ = [
    "Answer",
    "Backbone",
    "BackboneError",
    "Messages",
    "backbone",
    "prompt_text",
]


def backbone(spec: str, *, environment: str = "", **options: Any) -> Backbone:
    """Make a backbone from its name on the command line.

    Args:
        spec: `scripted`, `openai:MODEL` (any OpenAI-compatible endpoint, at `OPENAI_BASE_URL`
            or the option `base_url`), `llama:PATH.gguf` (a llama.cpp server that is started
            here), or `package.module:function` for one of your own.
        environment: The environment whose scripted program plays.
        options: Arguments of `ModelClient`, of `LlamaModel`, or of your function.

    Raises:
        BackboneError: The spec is unknown, or the backbone cannot be made.
    """
    kind, _, name = spec.partition(":")
    if kind == "scripted" and not name:
        from agora_lab.agents.scripted import reader

        return reader(environment)
    if kind == "openai" and name:
        from agora_lab.agents.client import ModelClient

        return ModelClient(name, **options)
    if kind == "llama" and name:
        from agora_lab.agents.llama import LlamaModel, find_model

        return LlamaModel(find_model(name), **options)
    try:
        make = getattr(importlib.import_module(kind), name)
    except (ImportError, AttributeError, ValueError) as error:
        known = "scripted, openai:MODEL, llama:PATH.gguf or package.module:function"
        raise BackboneError(f"backbone {spec!r}", f"is unknown ({error}); use {known}") from error
    made: Backbone = make(environment=environment, **options)
    return made
