"""A student as a backbone, in this process: it reads what is new in a prompt, and guesses are free.

What was read is kept as far as the next prompt begins the same way. A guess of the answer is read
together with the prompt, and as much of it is taken as the student would have written itself,
token by token: the answer is the student's greedy one whatever is guessed, but a right guess
costs one reading instead of one for each token.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agora.errors import MissingExtraError
from agora_lab.backbones import Answer, Backbone, Messages, readers
from agora_lab.backbones.student import student_messages
from agora_lab.environments import world as world_of
from agora_lab.fidelity import attention
from agora_lab.fidelity.int8 import to_int8
from agora_lab.fidelity.likelihood import common
from agora_lab.teaching.sequences import ACTOR, END, turn
from agora_lab.teaching.student import load_student

try:
    import torch
    from transformers.cache_utils import DynamicCache
except ImportError as error:
    raise MissingExtraError(__name__, "judge", "agora-lab") from error

MOST_TOKENS = 64
"""Of an answer, as for servers."""


class TorchBackbone:
    """Greedy answers of a causal language model that transformers loads. Not thread-safe."""

    def __init__(self, model: Any, tokenizer: Any, *, most_tokens: int = MOST_TOKENS) -> None:
        self._model = model.eval()
        self._tokenizer = tokenizer
        self._most = most_tokens
        self._end = self._ids(END)[0]
        self._read: list[int] = []
        self._cache = DynamicCache()

    @torch.inference_mode()
    def answer(self, messages: Messages, *, guess: str = "") -> Answer:
        """Return the answer that is most likely, token by token."""
        prompt = self._ids(prompt_of(messages))
        guessed = self._ids(guess + END) if guess else []
        # The last token of the prompt is always read: the first of the answer follows from it.
        shared = common(self._read, prompt, len(prompt) - 1)
        written: list[int] = []
        known = shared
        while (not written or written[-1] != self._end) and len(written) < self._most:
            # Where a guess was wrong in a name or a number, its end may still be right.
            rest = guessed[len(written) :]
            chosen = self._next([*prompt, *written, *rest], known, len(prompt) + len(written))
            right = common(chosen, rest, len(rest))
            # The token after the last right one follows from it, unless that was the end.
            written += chosen[: right if right and rest[right - 1] == self._end else right + 1]
            known = len(prompt) + len(written) - 1
        ended = written[-1] == self._end
        text = self._tokenizer.decode(written[:-1] if ended else written)
        return Answer(
            text=text,
            input_tokens=len(prompt),
            output_tokens=len(written),
            cached_tokens=shared,
            finish="stop" if ended else "length",
        )

    def _next(self, token_ids: list[int], known: int, prompt: int) -> list[int]:
        """Read on after `known` tokens; return the best token after each from the prompt's end."""
        if len(self._read) > known:
            self._cache.crop(known - len(self._read))
        ids = torch.tensor([token_ids[known:]])
        states = self._model.model(
            input_ids=ids, past_key_values=self._cache, use_cache=True
        ).last_hidden_state[0]
        self._read = token_ids
        return list(self._model.lm_head(states[prompt - 1 - known :]).argmax(-1).tolist())

    def _ids(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False))


def prompt_of(messages: Messages) -> str:
    """Return the messages in the chat format of lessons, up to where the answer begins."""
    return "".join(turn(one["role"], one["content"]) for one in messages) + ACTOR


@dataclass(frozen=True, slots=True)
class PlayedStudent:
    """A student in a world, with the reader's answers for guesses: it has mostly learnt them."""

    model: TorchBackbone
    reader: Backbone
    world: str
    instructions: str

    def answer(self, messages: Messages) -> Answer:
        """Return the student's answer to these messages."""
        said = student_messages(messages, world=self.world, instructions=self.instructions)
        return self.model.answer(said, guess=self.reader.answer(messages).text)


def student(*, folder: str, world: str, arithmetic: str = "float32", threads: int = 1) -> Backbone:
    """Return the student in a folder as a backbone for a world; a grid's `make` can name it."""
    chosen = world_of(world)
    taught = load_student(Path(folder), threads=threads, attention=attention.NAME)
    if arithmetic == "int8":
        said = [{"role": "user", "content": chosen.examples or chosen.instructions}]
        to_int8(taught.model, taught.tokenizer.encode(prompt_of(said), add_special_tokens=False))
    return PlayedStudent(
        TorchBackbone(taught.model, taught.tokenizer),
        readers.reader(world),
        chosen.name,
        chosen.instructions,
    )
