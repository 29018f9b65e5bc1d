"""Exports a trained module as the bytes of an equivalent ONNX model in int8.

ONNX Runtime's own dynamic int8 rounds a whole batch by its largest number, and
moves a probability by up to 0.04 or 0.12. Rounding each token by itself is
better and not enough: what differs by one bit, as between two processors, is
rounded to different sides here and there, and after a few layers differs by as
much as the rounding. So an input is written as two whole numbers of eight bits,
the second for what the first leaves over. That costs a second product, is still
faster than float32, and the same on every machine to some 1e-4.

What is left is the rounding of the weights, and torch can do just the same: with
`simulate_int8` an encoder is trained with the weights it will be served with, so
nothing is lost when it is exported. Weights have seven bits: with eight,
processors without VNNI overflow.
"""

import io
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from agora.errors import AgoraError, MissingExtraError
from agora.scorers.encoder import INPUTS

try:
    import numpy as np
    import onnx
    import torch
    from onnx import TensorProto, helper, numpy_helper
    from torch import Tensor, nn
except ImportError as error:
    raise MissingExtraError(__name__, "train-encoders", "agora-lab") from error

PARITY = 0.01
"""How far an exported probability may be from the trained one."""
_ROUND = 127.0
"""Activations and embeddings are whole numbers up to this, either side of zero."""
_STEPS = 254.0
"""Into so many parts a whole number of the first kind is divided by the second."""
_WEIGHT = 63.0
_TINY = 1e-12
_LEAST_ROWS = 64
"""A table with no more rows than this stays as it is: it saves nothing."""
_OPSET = 17


class ParityError(AgoraError):
    """The exported model does not match the trained one."""

    def __init__(self, worst: float, bar: float, pairs: int) -> None:
        super().__init__(worst, bar, pairs)
        self.worst = worst
        self.bar = bar
        self.pairs = pairs

    def __str__(self) -> str:
        return (
            f"the exported scorer is up to {self.worst:.4f} from the trained one on "
            f"{self.pairs:,} pairs, more than {self.bar}; train it with simulate_int8, or "
            "export it without int8"
        )


@dataclass(frozen=True, slots=True)
class Parity:
    """How far exported probabilities are from trained ones."""

    worst: float
    mean: float
    pairs: int


def parity(
    trained: Sequence[float], exported: Sequence[float], *, bar: float | None = PARITY
) -> Parity:
    """Return the distance of two scorers' probabilities over the same pairs.

    >>> parity([0.25, 0.5], [0.25, 0.508]).pairs
    2

    Raises:
        ParityError: it is more than the bar; with `None` there is none.
    """
    gaps = np.abs(np.asarray(trained, float) - np.asarray(exported, float))
    found = Parity(float(gaps.max(initial=0)), float(gaps.mean()) if gaps.size else 0.0, gaps.size)
    if bar is not None and not found.worst <= bar:
        raise ParityError(found.worst, bar, found.pairs)
    return found


class _Int8Linear(nn.Linear):
    """A linear layer with the weights of its export, that learns as if they were its own."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002
        own = self.weight.detach()
        scale = _scale(own, _WEIGHT)
        # Forward the rounded weight, backward the weight itself.
        weight = self.weight + (torch.round(own / scale) * scale - own)
        return nn.functional.linear(input, weight, self.bias)


class _Int8Embedding(nn.Embedding):
    """A table whose rows are rounded as its export's are."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002
        rows = super().forward(input)
        scale = _scale(rows.detach(), _ROUND)
        return rows + (torch.round(rows.detach() / scale) * scale - rows.detach())


_SIMULATED: dict[type[nn.Module], Any] = {
    nn.Linear: _Int8Linear,
    nn.Embedding: _Int8Embedding,
}


def simulate_int8(encoder: nn.Module) -> None:
    """From now on, compute with the rounding that `export(..., int8=True)` will serve with.

    It changes the encoder in place and leaves its weights as they are. Give it
    the encoder only: the weights of every linear layer in it, which has to work on
    tokens (batch x length x width), and every table are rounded. A head, on one row per
    text, is exported as it is. Train afterwards, and export and training agree.
    """
    for part in encoder.modules():
        if type(part) is nn.Linear or (
            type(part) is nn.Embedding and part.num_embeddings > _LEAST_ROWS
        ):
            part.__class__ = _SIMULATED[type(part)]


def export(module: nn.Module, *, inputs: Sequence[str] = INPUTS[:2], int8: bool = True) -> bytes:
    """Return a module as an ONNX model, for the `model.onnx` of a bundle.

    The module takes one tensor (batch x length, whole numbers) for each of
    `inputs`, names of `agora.scorers.encoder.INPUTS` in its order of arguments,
    and returns one tensor with a row per text. Batch and length stay free. No
    file is written.
    """
    training = module.training
    module.eval()
    ids = torch.arange(10, 34).reshape(2, 12)
    example = {
        "input_ids": ids % 8 + 2,
        "attention_mask": torch.ones_like(ids),
        "token_type_ids": torch.zeros_like(ids),
    }
    free = {0: "batch", 1: "length"}
    file: Any = io.BytesIO()
    with warnings.catch_warnings(), torch.no_grad(), _plain(module):
        # The exporter that traces needs no package beside onnx, and says at length that it is old.
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
    module.train(training)
    data = bytes(file.getvalue())
    return to_int8(data) if int8 else data


def to_int8(data: bytes) -> bytes:
    """Return a model with its products of tokens by weights, and its tables, in int8.

    What one row per text goes through (Gemm) is left alone.
    """
    model = onnx.load_model_from_string(data)
    weights = {one.name: one for one in model.graph.initializer}
    rewriter = _Rewriter(weights)
    for node in model.graph.node:
        rewriter.add(node)
    kept = [one for one in model.graph.initializer if one.name not in rewriter.gone]
    del model.graph.node[:]
    del model.graph.initializer[:]
    model.graph.node.extend(rewriter.nodes)
    model.graph.initializer.extend([*kept, *rewriter.weights])
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return bytes(model.SerializeToString())


class _Rewriter:
    """Takes the nodes of a graph in their order and gives back those in int8."""

    def __init__(self, found: dict[str, Any]) -> None:
        self.found = found
        self.nodes: list[Any] = []
        self.gone: set[str] = set()
        self.rounded: set[str] = set()
        self.weights: list[Any] = [
            numpy_helper.from_array(np.array(_ROUND, np.float32), "int8_most"),
            numpy_helper.from_array(np.array(_TINY, np.float32), "int8_tiny"),
            numpy_helper.from_array(np.array(1, np.float32), "int8_one"),
            numpy_helper.from_array(np.array(1 / _STEPS, np.float32), "int8_step"),
            numpy_helper.from_array(np.array(128, np.uint8), "int8_zero"),
        ]

    def add(self, node: Any) -> None:
        if node.op_type == "MatMul" and self._is_table(node.input[1]):
            self._product(node)
        elif (
            node.op_type == "Gather"
            and self._is_table(node.input[0])
            and self.found[node.input[0]].dims[0] > _LEAST_ROWS
        ):
            self._lookup(node)
        else:
            self.nodes.append(node)

    def _is_table(self, name: str) -> bool:
        one = self.found.get(name)
        return one is not None and one.data_type == TensorProto.FLOAT and len(one.dims) == 2

    def _product(self, node: Any) -> None:
        """Write each row of the input as two whole numbers, multiply, and put it together."""
        x, weight, out = node.input[0], node.input[1], node.output[0]
        if x not in self.rounded:
            # Queries, keys and values are made from the same rows.
            self.rounded.add(x)
            self._node("Abs", [x], f"{x}_abs")
            self._node("ReduceMax", [f"{x}_abs"], f"{x}_max", axes=[-1], keepdims=1)
            self._node("Max", [f"{x}_max", "int8_tiny"], f"{x}_most")
            self._node("Div", ["int8_most", f"{x}_most"], f"{x}_times")
            self._node("Mul", [x, f"{x}_times"], f"{x}_scaled")
            self._node("QuantizeLinear", [f"{x}_scaled", "int8_one", "int8_zero"], f"{x}_high")
            self._node("DequantizeLinear", [f"{x}_high", "int8_one", "int8_zero"], f"{x}_whole")
            self._node("Sub", [f"{x}_scaled", f"{x}_whole"], f"{x}_rest")
            self._node("QuantizeLinear", [f"{x}_rest", "int8_step", "int8_zero"], f"{x}_low")
            self._node("Concat", [f"{x}_high", f"{x}_low"], f"{x}_int8", axis=0)
            self._node("Div", [f"{x}_most", "int8_most"], f"{x}_scale_high")
            self._node("Mul", [f"{x}_scale_high", "int8_step"], f"{x}_scale_low")
            self._node("Concat", [f"{x}_scale_high", f"{x}_scale_low"], f"{x}_scale", axis=0)
        if weight not in self.gone:
            self.gone.add(weight)
            values = numpy_helper.to_array(self.found[weight])
            scale = np.maximum(np.abs(values).max(0, keepdims=True) / np.float32(_WEIGHT), _TINY)
            self._weight(np.rint(values / scale).astype(np.int8), f"{weight}_int8")
            self._weight(scale.astype(np.float32)[0], f"{weight}_scale")
            self._weight(np.zeros(values.shape[1], np.int8), f"{weight}_zero")
        factors = [f"{x}_int8", f"{weight}_int8", "int8_one", f"{weight}_scale"]
        self._node(
            "MatMulIntegerToFloat",
            [*factors, "int8_zero", f"{weight}_zero"],
            f"{out}_both",
            domain="com.microsoft",
        )
        self._node("Mul", [f"{out}_both", f"{x}_scale"], f"{out}_scaled")
        halves = [f"{out}_high", f"{out}_low"]
        self.nodes.append(
            helper.make_node("Split", [f"{out}_scaled"], halves, name=f"{out}_split", axis=0)
        )
        self._node("Add", halves, out)

    def _lookup(self, node: Any) -> None:
        """Look up whole numbers and the scale of their row."""
        table, places, out = node.input[0], node.input[1], node.output[0]
        if table not in self.gone:
            self.gone.add(table)
            values = numpy_helper.to_array(self.found[table])
            scale = np.maximum(np.abs(values).max(1, keepdims=True) / np.float32(_ROUND), _TINY)
            self._weight(np.rint(values / scale).astype(np.int8), f"{table}_int8")
            self._weight(scale.astype(np.float32), f"{table}_scale")
        self._node("Gather", [f"{table}_int8", places], f"{out}_int8")
        self._node("Cast", [f"{out}_int8"], f"{out}_float", to=TensorProto.FLOAT)
        self._node("Gather", [f"{table}_scale", places], f"{out}_scale")
        self._node("Mul", [f"{out}_float", f"{out}_scale"], out)

    def _node(self, kind: str, inputs: list[str], output: str, **options: Any) -> None:
        self.nodes.append(helper.make_node(kind, inputs, [output], name=output, **options))

    def _weight(self, values: Any, name: str) -> None:
        self.weights.append(numpy_helper.from_array(values, name))


def _scale(values: Tensor, most: float) -> Tensor:
    """Return what one whole number is worth in each row."""
    return (values.abs().amax(-1, keepdim=True) / most).clamp(min=_TINY)


@contextmanager
def _plain(module: nn.Module) -> Iterator[None]:
    """Without the rounding, which `to_int8` puts in its own way."""
    back = {rounding: plain for plain, rounding in _SIMULATED.items()}
    parts = [part for part in module.modules() if type(part) in back]
    kinds = [type(part) for part in parts]
    for part, kind in zip(parts, kinds, strict=True):
        part.__class__ = back[kind]
    try:
        yield
    finally:
        for part, kind in zip(parts, kinds, strict=True):
            part.__class__ = kind
