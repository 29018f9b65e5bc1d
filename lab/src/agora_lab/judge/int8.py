"""Linear layers in eight bits, for processors that are slow in bfloat16.

Without AMX or AVX512-BF16, torch reads bfloat16 several times slower than float32, and eight
bits three times faster (`torch._int_mm`, AVX512-VNNI). Weights are rounded per output channel,
activations per token. A few input channels of every layer carry values far above all others; they
stay in float32, because rounding for their sake would erase the rest. Which they are is found
once, by reading a text: what a prompt is worth must not depend on how it was cut into chunks.
"""

from collections.abc import Callable, Sequence
from typing import Any

from agora.errors import MissingExtraError

try:
    import torch
    from torch import nn
except ImportError as error:
    raise MissingExtraError(__name__, "judge", "agora-lab") from error

OUTLIERS = 64
"""Input channels per layer in float32. With 64 the nats of an action are within rounding of
float32's; see lab/notebook/2026-11.md."""
_LARGEST = 127.0


class Int8Linear(nn.Module):
    """A linear layer whose products are computed in eight bits but for some input channels."""

    def __init__(self, layer: nn.Linear, outliers: torch.Tensor) -> None:
        super().__init__()
        weight = layer.weight.detach().float()
        self.outliers = outliers
        self.exact = weight[:, outliers].t().contiguous()
        rest = weight.clone()
        rest[:, outliers] = 0.0
        self.scale = (rest.abs().amax(1) / _LARGEST).clamp_min(1e-12)
        self.rounded = (rest / self.scale[:, None]).round().to(torch.int8).t().contiguous()
        self.rest = torch.ones(weight.shape[1])
        self.rest[outliers] = 0.0
        bias = layer.bias
        self.bias = torch.zeros(weight.shape[0]) if bias is None else bias.detach().float()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return what the layer returns."""
        rows = x.reshape(-1, x.shape[-1])
        rounded, scale = _rounded(rows, self.rest)
        product = torch._int_mm(rounded, self.rounded)
        exact = torch.addmm(self.bias, rows[:, self.outliers], self.exact)
        return _scaled(product, scale, self.scale, exact).reshape(*x.shape[:-1], -1)


def _round(rows: torch.Tensor, rest: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return rows in eight bits without the channels where `rest` is 0, and each row's scale."""
    kept = rows * rest
    scale = kept.abs().amax(1, keepdim=True).clamp_min(1e-12) / _LARGEST
    return (kept / scale).round().to(torch.int8), scale


def _scale(
    product: torch.Tensor, rows: torch.Tensor, channels: torch.Tensor, exact: torch.Tensor
) -> torch.Tensor:
    return product.float() * rows * channels + exact


# Compiled, each is one pass over memory instead of five, and a layer takes a third less time.
_rounded = torch.compile(_round, dynamic=True)
_scaled = torch.compile(_scale, dynamic=True)


@torch.inference_mode()
def to_int8(model: Any, token_ids: Sequence[int], *, outliers: int = OUTLIERS) -> Any:
    """Replace the linear layers of a float32 model's body, and return the model.

    `token_ids` are of a text like those it will read. The head keeps its weights: it
    is applied to few tokens, and shares them with the embeddings.
    """
    layers = {name: one for name, one in model.model.named_modules() if isinstance(one, nn.Linear)}
    largest: dict[str, torch.Tensor] = {}

    def looking(name: str) -> Callable[..., None]:
        def look(_layer: nn.Module, given: tuple[torch.Tensor, ...]) -> None:
            largest[name] = given[0].reshape(-1, given[0].shape[-1]).abs().amax(0)

        return look

    hooks = [one.register_forward_pre_hook(looking(name)) for name, one in layers.items()]
    model.model(input_ids=torch.tensor([list(token_ids)]), use_cache=False)
    for hook in hooks:
        hook.remove()
    for name, layer in layers.items():
        count = min(outliers, layer.in_features // 4)
        chosen = largest[name].topk(count).indices.sort().values
        parent, _, own = name.rpartition(".")
        setattr(model.model.get_submodule(parent), own, Int8Linear(layer, chosen))
    return model
