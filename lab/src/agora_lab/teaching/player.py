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
from agora_lab.backbones.student import StudentFormat
from agora_lab.environments import world as world_of
from agora_lab.fidelity import attention
from agora_lab.fidelity.int8 import to_int8
from agora_lab.fidelity.likelihood import common
from agora_lab.teaching.sequences import ACTOR, END, turn
from agora_lab.teaching.student import load_student
from agora_lab.teaching.wording import Beginnings, Wording, wording

try:
    import torch
    from transformers.cache_utils import DynamicCache
    from transformers.convert_slow_tokenizer import bytes_to_unicode
except ImportError as error:
    raise MissingExtraError(__name__, "judge", "agora-lab") from error

MOST_TOKENS = 96
"""Of an answer. A search repeats most of what the customer says."""
_CANDIDATES = 64
"""So many tokens are looked at first for the best one that the wording allows."""


class TorchBackbone:
    """Greedy answers of a causal language model that transformers loads. Not thread-safe."""

    def __init__(self, model: Any, tokenizer: Any, *, most_tokens: int = MOST_TOKENS) -> None:
        self._model = model.eval()
        self._tokenizer = tokenizer
        self._most = most_tokens
        self._end = self._ids(END)[0]
        self._bytes = token_bytes(tokenizer)
        self._read: list[int] = []
        self._cache = DynamicCache()

    @torch.inference_mode()
    def answer(
        self, messages: Messages, *, guess: str = "", wording: Wording | None = None
    ) -> Answer:
        """Return the answer that is most likely, token by token, among those of the wording."""
        prompt = self._ids(prompt_of(messages))
        rest = self._ids(guess + END) if guess else []
        # The last token of the prompt is always read: the first of the answer follows from it.
        shared = common(self._read, prompt, len(prompt) - 1)
        written: list[int] = []
        known = shared
        while (not written or written[-1] != self._end) and len(written) < self._most:
            scores = self._next([*prompt, *written, *rest], known, len(prompt) + len(written))
            taken = self._taken(scores, written, rest, wording)
            # Where a guess was wrong in a name or a number, its end may still be right.
            right = len(taken) <= len(rest) and taken[-1] == rest[len(taken) - 1]
            rest = rest[len(taken) :]
            written += taken
            if wording is not None and not right and written[-1] != self._end:
                rest = self._completion(written, wording) or rest
            known = len(prompt) + len(written) - 1
        ended = written[-1] == self._end
        if wording is not None and not ended:
            # A search that goes in circles would never become an action, and be begun again.
            said = self._said(written)
            written += self._ids(wording.closed(said)[len(said) :].decode())
        text = self._tokenizer.decode(written[:-1] if ended else written)
        return Answer(
            text=text,
            input_tokens=len(prompt),
            output_tokens=len(written),
            cached_tokens=shared,
            finish="stop" if ended else "length",
        )

    def _next(self, token_ids: list[int], known: int, prompt: int) -> torch.Tensor:
        """Read on after `known` tokens; return the scores after each from the prompt's end."""
        if len(self._read) > known:
            self._cache.crop(known - len(self._read))
        ids = torch.tensor([token_ids[known:]])
        states = self._model.model(
            input_ids=ids, past_key_values=self._cache, use_cache=True
        ).last_hidden_state[0]
        self._read = token_ids
        scores: torch.Tensor = self._model.lm_head(states[prompt - 1 - known :])
        return scores

    def _taken(
        self, scores: torch.Tensor, written: list[int], rest: list[int], wording: Wording | None
    ) -> list[int]:
        """Return the best tokens, up to the first that is not what was guessed."""
        taken: list[int] = []
        for place, row in enumerate(scores):
            taken.append(self._best(row, [*written, *taken], wording))
            if taken[-1] == self._end or rest[place : place + 1] != taken[-1:]:
                break
        return taken

    def _best(self, row: torch.Tensor, written: list[int], wording: Wording | None) -> int:
        if wording is None:
            return int(row.argmax())
        said = self._said(written)
        begins = Beginnings(wording, said)
        for count in (_CANDIDATES, len(row)):
            for token in row.topk(min(count, len(row))).indices.tolist():
                if token == self._end:
                    if wording.allows(said):
                        return self._end
                elif (more := self._bytes.get(token)) and begins(more):
                    return int(token)
        return self._end

    def _completion(self, written: list[int], wording: Wording) -> list[int]:
        """Return the rest of an action that begins with what is written, as a guess."""
        said = self._said(written)
        whole = wording.completed(said)
        return self._ids(whole[len(said) :].decode("utf-8", "replace") + END) if whole else []

    def _said(self, written: list[int]) -> bytes:
        return b"".join(self._bytes.get(token, b"") for token in written)

    def _ids(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False))


def token_bytes(tokenizer: Any) -> dict[int, bytes]:
    """Return what each token of a tokenizer of bytes writes, without special tokens."""
    signs = bytes_to_unicode()  # type: ignore[no-untyped-call]
    byte_of = {sign: byte for byte, sign in signs.items()}
    special = set(tokenizer.all_special_ids)
    return {
        token: bytes(byte_of[sign] for sign in text)
        for text, token in tokenizer.get_vocab().items()
        if token not in special and all(sign in byte_of for sign in text)
    }


def prompt_of(messages: Messages) -> str:
    """Return the messages in the chat format of lessons, up to where the answer begins."""
    return "".join(turn(one["role"], one["content"]) for one in messages) + ACTOR


@dataclass(frozen=True, slots=True)
class PlayedStudent:
    """A student in a world, with the reader's answers for guesses: it has mostly learnt them."""

    model: TorchBackbone
    reader: Backbone
    format: StudentFormat
    worded: bool = True
    """Whether it is held to its world's wording."""

    def answer(self, messages: Messages) -> Answer:
        """Return the student's answer to these messages."""
        said = self.format.said(messages)
        return self.model.answer(
            said,
            guess=self.reader.answer(messages).text,
            wording=wording(self.format.world, said) if self.worded else None,
        )


def student(
    *,
    folder: str,
    world: str,
    arithmetic: str = "float32",
    threads: int = 1,
    worded: bool = True,
) -> Backbone:
    """Return the student in a folder as a backbone for a world; a grid's `make` can name it."""
    chosen = world_of(world)
    taught = load_student(Path(folder), threads=threads, attention=attention.NAME)
    if arithmetic == "int8":
        said = [{"role": "user", "content": chosen.examples or chosen.instructions}]
        to_int8(taught.model, taught.tokenizer.encode(prompt_of(said), add_special_tokens=False))
    return PlayedStudent(
        TorchBackbone(taught.model, taught.tokenizer),
        readers.reader(world),
        StudentFormat(chosen.name, chosen.instructions),
        worded,
    )
