"""LLMLingua-2 and LongLLMLingua, from the released package, with weights from a folder."""

import importlib
from collections.abc import Callable
from typing import Any


def prepare(options: dict[str, Any]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return a function that compresses a list of texts."""
    second = options["kind"] == "llmlingua2"
    compressor = importlib.import_module("llmlingua").PromptCompressor(
        model_name=options["weights"],
        use_llmlingua2=second,
        device_map="cpu",
        # Never run code from a folder of weights.
        model_config={"trust_remote_code": False},
    )

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        if second:
            result = compressor.compress_prompt(
                request["texts"], rate=request["rate"], use_context_level_filter=False
            )
            return {"texts": result["compressed_prompt_list"]}
        # As documented for long contexts; the order of steps is kept.
        result = compressor.compress_prompt(
            request["texts"],
            question=request["question"],
            rate=request["rate"],
            rank_method="longllmlingua",
            condition_in_question="after_condition",
            condition_compare=True,
            dynamic_context_compression_ratio=0.3,
            context_budget="+100",
            reorder_context="original",
            concate_question=False,
        )
        return {"text": result["compressed_prompt"]}

    return answer
