"""A GGUF file written once as a folder of bfloat16 weights, which then loads in seconds."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

from agora.errors import AgoraError, MissingExtraError

_WEIGHTS = "model.safetensors"


class WeightsError(AgoraError):
    """A model file or folder that cannot be used."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(str(path), problem)
        self.path = path
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.path} {self.problem}"


def prepare(gguf: Path, folder: Path) -> Path:
    """Write a GGUF model as `folder`: config, tokenizer and weights in bfloat16.

    Dequantising takes a minute or two and three times the memory of the result, so it is done once.
    An existing folder is complete (it is renamed into place last) and left alone.

    Raises:
        WeightsError: There is no such file, or transformers cannot read it.
        MissingExtraError: Torch or transformers is not installed.
    """
    if folder.exists():
        return folder
    if not gguf.is_file():
        raise WeightsError(gguf, "does not exist; give the path of a GGUF file")
    try:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig
    except ImportError as error:
        raise MissingExtraError(__name__, "judge", "agora-lab") from error

    source: dict[str, Any] = {
        "pretrained_model_name_or_path": str(gguf.parent),
        "gguf_file": gguf.name,
    }
    try:
        tokenizer = AutoTokenizer.from_pretrained(**source)
        model: Any = AutoModelForCausalLM.from_pretrained(
            **source, dtype=torch.bfloat16, quantization_config=GgufConfig(dequantize=True)
        )
    except (OSError, ValueError, ImportError) as error:
        raise WeightsError(gguf, f"cannot be loaded by transformers: {error}") from error
    draft = folder.with_name(f"{folder.name}.{os.getpid()}")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    try:
        # transformers refuses to save weights loaded from GGUF, although a dequantised model is a
        # model like any other.
        model.hf_quantizer = None
        model.to(torch.bfloat16).save_pretrained(draft)
        tokenizer.save_pretrained(draft)
        _forget_quantization(draft / "config.json")
        draft.rename(folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return folder


def _forget_quantization(config: Path) -> None:
    """Remove the settings of quantisation: the weights no longer are quantised."""
    value = json.loads(config.read_text(encoding="utf-8"))
    value.pop("quantization_config", None)
    value["dtype"] = "bfloat16"
    config.write_text(json.dumps(value, indent=2, sort_keys=True) + "\n", encoding="utf-8")
