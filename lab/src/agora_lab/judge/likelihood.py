"""A causal language model that gives the likelihood of each token of a continuation.

One process, no gradients, in the machine's fastest arithmetic. The last prompt stays in memory, and
a prompt that begins in the same way is read from the first difference. Logits are
computed only for the continuation: with 150,000 words those of a whole prompt would take
gigabytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agora.errors import MissingExtraError
from agora_lab.judge.weights import WeightsError

try:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.cache_utils import DynamicCache
except ImportError as error:
    raise MissingExtraError(__name__, "judge", "agora-lab") from error

CHUNK_TOKENS = 512
"""How many tokens are read at once. It bounds memory, and a token attends in vain only to the
later ones of its own chunk: with more, attention costs as much as everything else."""
REMEMBERED_TOKENS = 40_000
"""The size of the remembered prefix: 2.2 GB in float32 for 28 layers of two key-value heads."""


@dataclass(frozen=True, slots=True)
class Scored:
    """A model's view of a continuation."""

    nats: tuple[float, ...]
    """Per token: minus the natural logarithm of its probability."""
    read_tokens: int
    """How many tokens had to be read: those that no remembered prefix covers."""


@dataclass(slots=True)
class _Read:
    token_ids: tuple[int, ...]
    layers: list[tuple[torch.Tensor, torch.Tensor]]
    used: int


class Likelihood:
    """Scores continuations with any causal language model that transformers loads."""

    def __init__(
        self,
        model: Any,
        *,
        chunk_tokens: int = CHUNK_TOKENS,
        remembered_tokens: int = REMEMBERED_TOKENS,
    ) -> None:
        self.model = model.eval()
        """The language model itself."""
        self._chunk = chunk_tokens
        self._room = remembered_tokens
        self._memory: list[_Read] = []
        self._clock = 0

    @torch.inference_mode()
    def score(self, prompt: Sequence[int], continuation: Sequence[int]) -> Scored:
        """Return the nats of each token of a continuation after a prompt of at least one token."""
        token_ids = (*prompt, *continuation)
        cache, shared = self._remembered(token_ids, len(prompt) - 1)
        first = len(prompt) - 1
        states = []
        # No needed token follows the last one, so it need not be read.
        for start in range(shared, len(token_ids) - 1, self._chunk):
            end = min(start + self._chunk, len(token_ids) - 1)
            ids = torch.tensor([token_ids[start:end]])
            hidden = self.model.model(
                input_ids=ids, past_key_values=cache, use_cache=True
            ).last_hidden_state[0]
            if end > first:
                states.append(hidden[max(first - start, 0) :])
        nats = self._nats(torch.cat(states), continuation) if continuation else []
        self._remember(token_ids[: len(token_ids) - 1], cache)
        return Scored(tuple(nats), len(token_ids) - 1 - shared)

    def forget(self) -> None:
        """Forget the remembered prefix."""
        self._memory.clear()

    def _nats(self, states: torch.Tensor, continuation: Sequence[int]) -> list[float]:
        logits = self.model.lm_head(states).float()
        chosen = torch.tensor(continuation).unsqueeze(1)
        return [
            max(0.0, float(value))
            for value in -torch.log_softmax(logits, -1).gather(1, chosen).squeeze(1)
        ]

    def _remembered(self, token_ids: Sequence[int], most: int) -> tuple[DynamicCache, int]:
        """Return the cache of the longest remembered prefix, of at most `most` tokens."""
        self._clock += 1
        best, shared = None, 0
        for one in self._memory:
            length = common(one.token_ids, token_ids, most)
            if length > shared:
                best, shared = one, length
        if best is None:
            return DynamicCache(), 0
        best.used = self._clock
        # Views: a longer prefix concatenates, which copies, so the remembered one never changes.
        layers = [(keys[:, :, :shared], values[:, :, :shared]) for keys, values in best.layers]
        return DynamicCache(layers), shared

    def _remember(self, token_ids: tuple[int, ...], cache: DynamicCache) -> None:
        found: Any = cache.layers
        layers = [(layer.keys, layer.values) for layer in found]
        self._memory = [
            one
            for one in self._memory
            if common(one.token_ids, token_ids, len(one.token_ids)) < len(one.token_ids)
        ]
        self._memory.append(_Read(token_ids, layers, self._clock))
        self._memory.sort(key=lambda one: one.used)
        while len(self._memory) > 1 and self._held() > self._room:
            del self._memory[0]

    def _held(self) -> int:
        return sum(len(one.token_ids) for one in self._memory)


def common(a: Sequence[int], b: Sequence[int], most: int) -> int:
    """Return the length of the longest common prefix, at most `most`.

    >>> common([1, 2, 3], [1, 2, 4], 9), common([1, 2, 3], [1, 2, 3], 2)
    (2, 2)
    """
    pairs = zip(a[:most], b[:most], strict=False)
    return next((at for at, (x, y) in enumerate(pairs) if x != y), min(len(a), len(b), most))


def load(folder: Path, *, threads: int | None = None) -> tuple[Likelihood, Any]:
    """Return the model in a folder, and its tokenizer.

    It computes in bfloat16 where the machine has instructions for it, and in float32 elsewhere.

    Raises:
        WeightsError: The folder holds no model that transformers loads.
    """
    if threads:
        torch.set_num_threads(threads)
    fast = torch.backends.mps.is_available() or torch.cuda.is_available()
    fast = fast or torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported()
    dtype = torch.bfloat16 if fast else torch.float32
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder)
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
    except (OSError, ValueError) as error:
        raise WeightsError(folder, f"holds no model that can be loaded: {error}") from error
    return Likelihood(model), tokenizer
