"""A causal language model that answers: which of several answers is likeliest, and its own.

What was read stays in one cache, cut back to what the next prompt has in common with
it. All choices of a question are read in one pass behind it, each blind to the others,
so neither the weights nor what was read pass through memory once for each: that is as
fast as one token of an answer in its own words, of which there are several.
"""

from collections.abc import Sequence
from typing import Any

from agora.errors import MissingExtraError
from agora_lab.fidelity import attention
from agora_lab.fidelity.likelihood import CHUNK_TOKENS, common

try:
    import torch
    from transformers.cache_utils import DynamicCache
except ImportError as error:
    raise MissingExtraError(__name__, "judge", "agora-lab") from error


class Answering:
    """Chooses among answers and gives its own, greedily."""

    def __init__(self, model: Any, *, chunk_tokens: int = CHUNK_TOKENS) -> None:
        """Take a model over: its attention is set to the one that reads after long prefixes."""
        self._model = model.eval()
        self._model.set_attn_implementation(attention.NAME)
        self._chunk = chunk_tokens
        self._cache = DynamicCache()
        self._read: tuple[int, ...] = ()

    @torch.inference_mode()
    def choose(self, prompt: Sequence[int], choices: Sequence[Sequence[int]]) -> list[float]:
        """Return the nats of each choice as the whole answer; none of them may be empty."""
        last = self._after(prompt)
        tails = [list(choice[:-1]) for choice in choices]
        states = [last[0]] * len(choices)
        if any(tails):
            hidden = torch.split(self._side_by_side(tails), [len(tail) for tail in tails])
            states = [torch.cat([last[0], own]) for own in hidden]
        return [
            float(-_logs(self._model, own).gather(1, torch.tensor(choice)[:, None]).sum())
            for own, choice in zip(states, choices, strict=True)
        ]

    def _side_by_side(self, tails: Sequence[Sequence[int]]) -> torch.Tensor:
        """Return the states of texts that each follow what was read, as if alone."""
        past, lengths = len(self._read), [len(tail) for tail in tails]
        whose = torch.arange(len(tails)).repeat_interleave(torch.tensor(lengths))
        sees = torch.ones(len(whose), len(whose), dtype=torch.bool).tril()
        sees &= whose[:, None] == whose[None, :]
        sees = torch.cat([torch.ones(len(sees), past, dtype=torch.bool), sees], dim=1)
        hidden: torch.Tensor = self._model.model(
            input_ids=torch.tensor([[token_id for tail in tails for token_id in tail]]),
            position_ids=torch.tensor([[past + place for n in lengths for place in range(n)]]),
            attention_mask=sees[None, None],
            past_key_values=DynamicCache([(one.keys, one.values) for one in self._layers()]),
            use_cache=True,
        ).last_hidden_state
        return hidden[0]

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


def _logs(model: Any, states: torch.Tensor) -> torch.Tensor:
    return torch.log_softmax(model.lm_head(states).float(), -1)
