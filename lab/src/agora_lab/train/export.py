"""Export a trained module to ONNX, and check that serving gives the scores of training."""

import io
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from agora import AgoraError

__all__ = ["PARITY", "ParityError", "check_parity", "export"]

PARITY = 1e-5
"""How far a served probability may be from the trained one."""
_OPSET = 17


class ParityError(AgoraError):
    """The exported model does not give the scores of the trained one."""

    def __init__(self, worst: float, pairs: int) -> None:
        super().__init__(worst, pairs)
        self.worst = worst
        self.pairs = pairs

    def __str__(self) -> str:
        return (
            f"the exported scorer is up to {self.worst:.1e} from the trained one on "
            f"{self.pairs:,} pairs, more than {PARITY:.0e}"
        )


def check_parity(trained: Sequence[float], served: Sequence[float]) -> float:
    """Return the largest distance between two scorers' probabilities of the same pairs.

    Raises:
        ParityError: It is more than `PARITY`.
    """
    worst = max((abs(a - b) for a, b in zip(trained, served, strict=True)), default=0.0)
    if not worst <= PARITY:
        raise ParityError(worst, len(trained))
    return worst


def export(module: nn.Module, inputs: Sequence[str]) -> bytes:
    """Return a module as an ONNX model.

    Args:
        module: It takes one tensor (batch x length, whole numbers) for each of `inputs` and
            returns one row per pair. Batch and length stay free.
        inputs: `input_ids`, `attention_mask`, and `token_type_ids` where the model uses them.
    """
    module.eval()
    ids = torch.arange(10, 34).reshape(2, 12)
    example = {
        "input_ids": ids % 8 + 2,
        "attention_mask": torch.ones_like(ids),
        "token_type_ids": torch.zeros_like(ids),
    }
    free = {0: "batch", 1: "length"}
    file: Any = io.BytesIO()
    with warnings.catch_warnings(), torch.no_grad():
        # The exporter that traces needs no package beside onnx, and warns that it is old.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module,
            tuple(example[name] for name in inputs),
            file,
            input_names=list(inputs),
            output_names=["output"],
            dynamic_axes={**dict.fromkeys(inputs, free), "output": {0: "batch"}},
            opset_version=_OPSET,
            dynamo=False,
        )
    return bytes(file.getvalue())
