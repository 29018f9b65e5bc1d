"""A causal language model that says how likely each token of a continuation is.

One process, no gradients, in the arithmetic that the machine is fastest in. What was read is
kept: a prompt that begins like an earlier one is read only from where they part. Logits are
computed only for the continuation: with 150,000 words those of a whole prompt would take
gigabytes.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agora.errors import MissingExtraError
from agora_lab.judge.int8 import to_int8
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
"""How much is kept of what was read: 2.2 GB in float32 for 28 layers of two key-value heads."""
SAMPLE = """<|im_start|>system
You are a helpful agent that follows the policy below and calls one tool at a time.
# Tools
{"type": "function", "function": {"name": "get_reservation_details", "parameters": {"type":
"object", "properties": {"reservation_id": {"type": "string"}}, "required": ["reservation_id"]}}}
<|im_end|>
<|im_start|>user
Hi, I want to cancel order #W4776164 and get the 113 dollars back to gift_card_6276644.<|im_end|>
<|im_start|>assistant
<tool_call>
{"name": "get_reservation_details", "arguments": {"reservation_id": "4WQ150", "cabin": "economy"}}
</tool_call><|im_end|>
<|im_start|>user
<tool_response>
{"user_id": "raj_sanchez_7340", "payment_methods": {"gift_card_6276644": {"balance": 113}}}
</tool_response><|im_end|>
<|im_start|>assistant
THOUGHT: The test fails because `separability_matrix` ignores nested models. Let me look.

```bash
cd /testbed && grep -rn "def _cstack" src/modeling/*.py | head -5 && sed -n '219,247p' a.py
```<|im_end|>
<|im_start|>user
<returncode>0</returncode>
<output>
219:    def _cstack(left, right):
220-        # Stands for the '&' operation.
>>> open fridge 1. You see a mug 3, and in it nothing; then you go to countertop 2.
</output><|im_end|>
<|im_start|>assistant
"""
"""What agents read: a chat with tools, a shell and prose."""


@dataclass(frozen=True, slots=True)
class Scored:
    """What a model says of a continuation."""

    nats: tuple[float, ...]
    """Per token: minus the natural logarithm of its probability."""
    read_tokens: int
    """How many tokens had to be read: those that no remembered prefix covers."""
    seconds: float


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
        """The language model itself, as it was loaded."""
        self._chunk = chunk_tokens
        self._room = remembered_tokens
        self._memory: list[_Read] = []
        self._clock = 0

    @torch.inference_mode()
    def score(self, prompt: Sequence[int], continuation: Sequence[int]) -> Scored:
        """Return the nats of each token of a continuation after a prompt of at least one token."""
        began = time.perf_counter()
        token_ids = (*prompt, *continuation)
        cache, shared = self._remembered(token_ids, len(prompt) - 1)
        first = len(prompt) - 1
        states = []
        # The last token predicts nothing that is asked for, and need not be read.
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
        return Scored(tuple(nats), len(token_ids) - 1 - shared, time.perf_counter() - began)

    def forget(self) -> None:
        """Forget what was read."""
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
        # Views: reading on concatenates, which copies, so what is remembered never changes.
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
    end = min(len(a), len(b), most)
    # Halving instead of counting: comparing slices is fast, comparing numbers one by one is not.
    low = 0
    while low < end:
        middle = (low + end + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            end = middle - 1
    return low


def arithmetic() -> str:
    """Return what torch computes fastest in on this machine: `bfloat16`, `int8` or `float32`.

    On a processor that has no instructions for it, bfloat16 is the slowest of all.
    """
    if torch.backends.mps.is_available() or torch.cuda.is_available():
        return "bfloat16"
    cpu = torch.cpu
    if cpu._is_amx_tile_supported() or cpu._is_avx512_bf16_supported():
        return "bfloat16"
    return "int8" if cpu._is_vnni_supported() else "float32"


def load(
    folder: Path, *, arithmetic: str, threads: int | None = None, sample: str = SAMPLE
) -> tuple[Likelihood, Any]:
    """Return the model in a folder, and its tokenizer.

    `sample` is the text by which the layers' large channels are found for int8.

    Raises:
        WeightsError: the folder holds no model that transformers loads.
    """
    if threads:
        torch.set_num_threads(threads)
    dtype = torch.bfloat16 if arithmetic == "bfloat16" else torch.float32
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder)
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
    except (OSError, ValueError) as error:
        raise WeightsError(folder, f"holds no model that can be loaded: {error}") from error
    if arithmetic == "int8":
        token_ids = tokenizer(sample, add_special_tokens=False)["input_ids"]
        to_int8(model, token_ids)
        # Compiles what is compiled, before processes are forked.
        Likelihood(model).score(token_ids, token_ids[:2])
    return Likelihood(model), tokenizer
