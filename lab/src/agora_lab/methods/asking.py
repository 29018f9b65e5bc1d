"""Cached questions to a language model, and what they cost."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from agora.core.tokens import TokenCounter
from agora_lab.backbones.base import Answer, Backbone
from agora_lab.chats import COUNTER, ChatStep, tokens_of

_MOST_KEPT = 100_000


@dataclass(slots=True)
class Asked:
    """The cost of one call of a method, independent of the cache.

    A method replays a chat from its first step. An agent that had used it all along
    would pay only for questions at the newest step, so only those count and the cost
    does not depend on what is cached.
    """

    asking: "Asking"
    input_tokens: int = 0
    output_tokens: int = 0

    def ask(self, role: str, question: str, *, newest: bool) -> str:
        """Return the answer, stripped; its tokens count if it belongs to the newest step."""
        answer = self.asking.answer(role, question)
        if newest:
            self.input_tokens += answer.input_tokens
            self.output_tokens += answer.output_tokens
        return answer.text.strip()


@dataclass(slots=True)
class Asking:
    """Asks a backbone and caches its answers."""

    backbone: Backbone
    counter: TokenCounter = COUNTER
    _answers: dict[bytes, Answer] = field(default_factory=dict)

    def begin(self) -> Asked:
        """Return an account for one call of a method."""
        return Asked(self)

    def answer(self, role: str, question: str) -> Answer:
        """Return the backbone's answer to a question, cached if it was asked before.

        If the backbone counts no tokens, they are estimated.
        """
        messages = [{"role": "system", "content": role}, {"role": "user", "content": question}]
        key = hashlib.blake2b(json.dumps(messages).encode(), digest_size=16).digest()
        found = self._answers.get(key)
        if found is None:
            said = self.backbone.answer(messages)
            found = Answer(
                text=said.text,
                input_tokens=said.input_tokens or tokens_of(messages, self.counter),
                output_tokens=said.output_tokens or self.counter.count(said.text),
                cached_tokens=said.cached_tokens,
            )
            if len(self._answers) >= _MOST_KEPT:
                self._answers.clear()
            self._answers[key] = found
        return found


def written(steps: Sequence[ChatStep]) -> str:
    """Return steps as a question shows them.

    >>> step = ChatStep(number=3, messages=(), action="look", observation="A desk.", tokens=9)
    >>> print(written([step]))
    Step 3
    Action: look
    Observation: A desk.
    """
    return "\n\n".join(
        f"Step {step.number}\nAction: {step.action}\nObservation: {step.observation}"
        for step in steps
    )
