"""Causal attention for reading a few hundred tokens after a long remembered prefix.

Heads that share keys and values are multiplied together, so that those are not copied for each
head: with few new tokens the copies took as long as the rest of a layer.
"""

from typing import Any

from agora.errors import MissingExtraError

try:
    import torch
    from transformers import AttentionInterface
except ImportError as error:
    raise MissingExtraError(__name__, "judge", "agora-lab") from error

NAME = "agora_grouped"
_BLOCK = 128
"""Queries at once: their scores against a prefix of some thousand tokens stay in the cache."""


def grouped_attention(
    module: Any,  # noqa: ARG001 - the signature is transformers'
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    **_others: Any,
) -> tuple[torch.Tensor, None]:
    """Return the attention of one sequence whose last tokens are the queries.

    A mask of truths says what each of them sees; without one it is all that comes before it.
    """
    sees = None
    if attention_mask is not None and attention_mask.dtype is torch.bool:
        sees = attention_mask[0, 0]
    heads, length, width = query.shape[1:]
    groups, past = key.shape[1], key.shape[2]
    shared = heads // groups
    first = past - length
    scale = width**-0.5 if scaling is None else scaling
    asked = (query[0] * scale).view(groups, shared, length, width)
    keys, values = key[0].transpose(1, 2), value[0]
    found = torch.empty(groups, shared, length, width, dtype=query.dtype)
    for start in range(0, length, _BLOCK):
        end = min(start + _BLOCK, length)
        rows, seen = end - start, first + end
        block = asked[:, :, start:end].reshape(groups, shared * rows, width)
        scores = torch.bmm(block, keys[:, :, :seen]).view(groups, shared, rows, seen)
        if sees is None:
            later = torch.ones(rows, rows, dtype=torch.bool).triu_(1)
            scores[..., seen - rows :].masked_fill_(later, float("-inf"))
        else:
            scores.masked_fill_(~sees[start:end, :seen], float("-inf"))
        weights = torch.softmax(scores, -1).view(groups, shared * rows, seen)
        found[:, :, start:end] = torch.bmm(weights, values[:, :seen]).view(
            groups, shared, rows, width
        )
    return found.view(1, heads, length, width).transpose(1, 2), None


AttentionInterface.register(NAME, grouped_attention)
