"""LP-FT, the paper's training: the head on a frozen encoder first, then everything.

The loss is soft cross-entropy over two classes. For two classes that is soft binary
cross-entropy on the difference of the logits.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["Examples", "Recipe", "Trained", "probabilities", "train"]

_AT_ONCE = 16
"""Pairs of a pass without gradients."""
_PADDED_TOGETHER = 4
"""Pairs of a batch that are padded together. The gradient is the sum over the whole batch, so this
saves padding and changes nothing."""
Batch = Mapping[str, Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """The paper's schedule (appendix B). Its AdamW has torch's default weight decay."""

    head_epochs: int = 5
    head_rate: float = 2e-4
    full_epochs: int = 4
    full_rate: float = 1e-5
    batch: int = 16
    warmup: float = 0.1
    """The share of a phase's steps in which the rate rises. After it the rate falls as a cosine."""
    validation: float = 0.2
    """The share of trajectories that are held out."""
    seed: int = 42
    bfloat16: bool = False
    """True if the encoder trains in bfloat16, which is faster on processors with AMX. The weights,
    the head and every score stay in 32 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Examples:
    """Tokenised pairs with their soft labels."""

    inputs: Sequence[Any]
    """The inputs of `collate`. The length of an input's first part is its number of tokens."""
    labels: Sequence[float]

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.inputs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """The record of a training. The module has the weights of its last step."""

    epochs: tuple[Mapping[str, Any], ...]
    """Phase, epoch, seconds, mean training loss and validation loss."""
    seconds: float


def train(
    module: Any,
    examples: Examples,
    validation: Examples,
    recipe: Recipe | None = None,
    *,
    collate: Callable[[Sequence[Any]], Batch],
    progress: Callable[[str, int, int], None] = lambda *_: None,
) -> Trained:
    """Train a module by LP-FT.

    Args:
        module: It has `encode(batch)`, one row per pair, and `head`, two logits per row.
        examples: The training pairs.
        validation: The pairs whose loss is reported after each epoch.
        recipe: The paper's, if not given.
        collate: Makes a padded batch of inputs.
        progress: Called after each batch with the phase, its batches so far and in all.
    """
    recipe = recipe or Recipe()
    start = time.monotonic()
    rows: list[dict[str, Any]] = []

    def report(phase: str, epoch: int, loss: float) -> None:
        found = probabilities(module, validation.inputs, collate)
        cross = [
            -y * math.log(max(p, 1e-12)) - (1 - y) * math.log(max(1 - p, 1e-12))
            for p, y in zip(found, validation.labels, strict=True)
        ]
        rows.append(
            {
                "phase": phase,
                "epoch": epoch,
                "seconds": round(time.monotonic() - start, 1),
                "loss": loss,
                "validation_loss": sum(cross) / max(len(cross), 1),
            }
        )

    with _seeded(recipe.seed):
        for phase, epochs, rate in (
            ("head", recipe.head_epochs, recipe.head_rate),
            ("full", recipe.full_epochs, recipe.full_rate),
        ):
            frozen = phase == "head"
            total = epochs * math.ceil(len(examples) / recipe.batch)
            if not total:
                continue
            for name, weight in module.named_parameters():
                weight.requires_grad_(not frozen or name.startswith("head."))
            module.train(not frozen)
            module.head.train()
            # The encoder is frozen, so each pair is encoded once for all epochs.
            kept = _rows(module, examples.inputs, collate) if frozen else None
            optimizer = torch.optim.AdamW(
                [weight for weight in module.parameters() if weight.requires_grad], lr=rate
            )
            rates = partial(_rate, total=total, warmup=recipe.warmup)
            scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, rates)
            batches = 0
            for epoch in range(1, epochs + 1):
                module.train(not frozen)
                module.head.train()
                losses: list[float] = []
                order = torch.randperm(len(examples)).tolist()
                for at in range(0, len(order), recipe.batch):
                    places = order[at : at + recipe.batch]
                    losses.append(_step(module, examples, places, collate, kept, recipe.bfloat16))
                    optimizer.step()
                    scheduler.step()
                    optimizer.zero_grad(set_to_none=True)
                    batches += 1
                    progress(phase, batches, total)
                report(phase, epoch, sum(losses) / len(losses))
    module.eval()
    return Trained(epochs=tuple(rows), seconds=round(time.monotonic() - start, 1))


def probabilities(
    module: Any, inputs: Sequence[Any], collate: Callable[[Sequence[Any]], Batch]
) -> list[float]:
    """Return the softmax probability of the second class for each pair."""
    rows = _rows(module, inputs, collate)
    with torch.no_grad():
        logits = module.head.eval()(rows) if len(rows) else torch.zeros(0, 2)
    found: list[float] = torch.softmax(logits.double(), dim=-1)[:, 1].tolist()
    return found


def _step(
    module: Any,
    examples: Examples,
    places: Sequence[int],
    collate: Callable[[Sequence[Any]], Batch],
    kept: Tensor | None,
    bfloat16: bool,
) -> float:
    """Add the gradient of a batch, and return its mean loss."""
    ordered = sorted(places, key=lambda at: len(examples.inputs[at][0]))
    size = len(ordered) if kept is not None else _PADDED_TOGETHER
    loss = 0.0
    for at in range(0, len(ordered), size):
        part = ordered[at : at + size]
        if kept is None:
            with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
                rows = module.encode(collate([examples.inputs[one] for one in part])).float()
        else:
            rows = kept[part]
        soft = torch.tensor([examples.labels[one] for one in part])
        target = torch.stack([1 - soft, soft], dim=1)
        one: Any = nn.functional.cross_entropy(module.head(rows), target, reduction="sum")
        one = one / len(places)
        one.backward()
        loss += float(one.detach())
    return loss


def _rows(module: Any, inputs: Sequence[Any], collate: Callable[[Sequence[Any]], Batch]) -> Tensor:
    """Return the encoder's row for each pair, without gradients and without dropout."""
    module.eval()
    order = sorted(range(len(inputs)), key=lambda at: len(inputs[at][0]))
    rows: list[Tensor] = []
    with torch.no_grad():
        for at in range(0, len(order), _AT_ONCE):
            rows += module.encode(collate([inputs[one] for one in order[at : at + _AT_ONCE]]))
    return torch.stack(rows)[torch.tensor(order).argsort()] if rows else torch.zeros(0)


def _rate(step: int, total: int, warmup: float) -> float:
    """Return the factor of the learning rate: a linear warm-up, then a cosine to zero.

    >>> [round(_rate(step, 10, 0.2), 2) for step in (0, 1, 2, 6, 10)]
    [0.0, 0.5, 1.0, 0.5, 0.0]
    """
    rising = warmup * total
    if step < rising:
        return step / rising
    return 0.5 * (1 + math.cos(math.pi * (step - rising) / max(total - rising, 1)))


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Draw batches and dropout from the seed, and restore the caller's generator."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
