"""Steps kept at random: what any scorer has to beat at the same size."""

import hashlib
from dataclasses import dataclass

from agora.core.tokens import TokenCounter
from agora_lab.chats import COUNTER, K_RECENT, ChatStep, read, tokens_of
from agora_lab.methods.base import Messages, Shortened


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomStep:
    """Keeps the floor, then random steps until the budget is used up.

    Random values are derived from the steps' text, the task and the seed: the same in
    every run, on every machine, and for a step from one call to the next.
    """

    keep_ratio: float = 0.25
    k_recent: int = K_RECENT
    seed: int = 0
    counter: TokenCounter = COUNTER

    def shorten(self, messages: Messages) -> Shortened:
        """Return the messages with the drawn steps."""
        chat = read(messages, self.counter)
        room = chat.room(self.keep_ratio, self.k_recent)
        floor = set(chat.floor(self.k_recent))
        if chat.tokens <= room or len(floor) == len(chat.steps):
            return Shortened(messages=messages, detail="there is nothing that has to go")
        drawn = sorted(
            (step for step in chat.steps if step.number not in floor),
            key=lambda step: (self._lot(chat.task, step), step.number),
        )
        kept = set(floor)
        tokens = chat.preamble_tokens + sum(chat.steps[n - 1].tokens for n in floor)
        for step in drawn:
            if tokens + step.tokens <= room:
                kept.add(step.number)
                tokens += step.tokens
        shortened = chat.keep(kept)
        # Markers cost tokens too: the steps drawn last are dropped until everything fits.
        for step in reversed(drawn):
            if tokens_of(shortened, self.counter) <= room:
                break
            if step.number in kept:
                kept.remove(step.number)
                shortened = chat.keep(kept)
        return Shortened(messages=shortened)

    def _lot(self, task: str, step: ChatStep) -> bytes:
        text = f"{self.seed}\n{task}\n{step.number}\n{step.action}\n{step.observation}"
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
