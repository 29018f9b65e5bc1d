"""A causal language model that answers: which of several answers is likeliest, and its own.

What was read stays in one cache, cut back to what the next prompt has in common with
it. All choices of a question are read as one batch, so the weights pass through
memory once for all of them: that is as fast as one token of an answer in its own
words, of which there are several.
"""

from collections.abc import Sequence
from typing import Any

from agora.errors import MissingExtraError
from agora_lab.fidelity.likelihood import common

try:
    import torch
    from transformers.cache_utils import DynamicCache
except ImportError as error:
    raise MissingExtraError(__name__, "judge", "agora-lab") from error

CHUNK_TOKENS = 2_048


class Answering:
    """Chooses among answers and gives its own, greedily."""

    def __init__(self, model: Any, *, chunk_tokens: int = CHUNK_TOKENS) -> None:
        """Take a model over: its attention is set to one that reads batches."""
        self._model = model.eval()
        self._model.set_attn_implementation("sdpa")
        self._chunk = chunk_tokens
        self._cache = DynamicCache()
        self._read: tuple[int, ...] = ()

    @torch.inference_mode()
    def choose(self, prompt: Sequence[int], choices: Sequence[Sequence[int]]) -> list[float]:
        """Return the nats of each choice as the whole answer; none of them may be empty."""
        last = self._after(prompt)
        longest = max(map(len, choices))
        ids = torch.zeros((len(choices), longest), dtype=torch.long)
        for place, choice in enumerate(choices):
            # Padding stands behind the tokens that count, which do not look ahead.
            ids[place, : len(choice)] = torch.tensor(choice)
        first = last.expand(len(choices), 1, -1)
        states = first
        if longest > 1:
            layers = [
                (
                    one.keys.expand(len(choices), -1, -1, -1),
                    one.values.expand(len(choices), -1, -1, -1),
                )
                for one in self._layers()
            ]
            hidden = self._model.model(
                input_ids=ids[:, :-1], past_key_values=DynamicCache(layers), use_cache=True
            ).last_hidden_state
            states = torch.cat([first, hidden], dim=1)
        logs = torch.log_softmax(self._model.lm_head(states).float(), -1)
        nats = -logs.gather(2, ids.unsqueeze(2)).squeeze(2)
        return [float(nats[place, : len(choice)].sum()) for place, choice in enumerate(choices)]

    @torch.inference_mode()
    def answer(
        self, prompt: Sequence[int], *, max_tokens: int = 12, ends: frozenset[int] = frozenset()
    ) -> list[int]:
        """Return the tokens of the likeliest answer, one by one, up to one of `ends`."""
        token_ids = list(prompt)
        said: list[int] = []
        while len(said) < max_tokens:
            logits = self._model.lm_head(self._after(token_ids))
            token_id = int(logits[0, -1].argmax())
            if token_id in ends:
                break
            said.append(token_id)
            token_ids.append(token_id)
        return said

    def _layers(self) -> list[Any]:
        """Return what was read: of a causal model each layer has keys and values."""
        return list(self._cache.layers)

    def _after(self, prompt: Sequence[int]) -> torch.Tensor:
        """Read a prompt as far as it is new, and return the state behind its last token."""
        token_ids = tuple(prompt)
        # The last token is read again, if need be: its state is what is asked for.
        shared = common(self._read, token_ids, len(token_ids) - 1)
        if shared < len(self._read):
            # Views: reading on copies, so nothing is cut off before it has to be.
            self._cache = DynamicCache(
                [(one.keys[:, :, :shared], one.values[:, :, :shared]) for one in self._layers()]
                if shared
                else None
            )
        for start in range(shared, len(token_ids), self._chunk):
            ids = torch.tensor([token_ids[start : start + self._chunk]])
            hidden = self._model.model(
                input_ids=ids, past_key_values=self._cache, use_cache=True
            ).last_hidden_state
        self._read = token_ids
        last: torch.Tensor = hidden[:, -1:]
        return last
