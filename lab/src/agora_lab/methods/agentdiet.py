"""AgentDiet: each step is rewritten two steps later without what is no longer useful."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from agora.core.tokens import TokenCounter
from agora_lab.backbones.base import Backbone
from agora_lab.chats import COUNTER, ChatStep, read, tokens_of, with_text
from agora_lab.methods.asking import Asked, Asking, written
from agora_lab.methods.base import Messages, Shortened

ROLE = "You tidy the record of an agent that acts by text, so that it costs less to read again."
QUESTION = """The agent's task:
{task}

Part of its record:
{steps}

Rewrite the observation of step {number}, and of no other step. Leave out what is useless \
for the task, what is said elsewhere in this part, and what later steps have made out of date; \
write ... where something was left out. Keep what may still matter exactly as it is written, \
names and numbers above all. Use at most {words} words. Answer with the observation and \
nothing else."""
THRESHOLD_TOKENS = 500


@dataclass(slots=True)
class AgentDiet:
    """Has a backbone rewrite the observation of the step before the last two.

    Our implementation of Xiao et al. (2025): a sliding window, one step examined per
    call, with the one before it and those after it. A step below a threshold is left
    alone, and a rewrite that is not shorter is discarded. Only observations are
    rewritten: a rewritten action would be one the agent did not take.
    """

    backbone: Backbone
    keep_ratio: float = 0.25
    """How many of an observation's words the backbone is asked to keep."""
    threshold_tokens: int = THRESHOLD_TOKENS
    """Smaller steps are left alone; most steps of text environments are."""
    after: int = 2
    before: int = 1
    counter: TokenCounter = COUNTER
    _asking: Asking = field(init=False)

    def __post_init__(self) -> None:
        self._asking = Asking(self.backbone, self.counter)

    def shorten(self, messages: Messages) -> Shortened:
        """Return the messages with old observations rewritten."""
        chat = read(messages, self.counter)
        asked = self._asking.begin()
        steps = list(chat.steps)
        for newest in range(self.after, len(steps)):
            at = newest - self.after
            if steps[at].tokens >= self.threshold_tokens and steps[at].observation:
                window = steps[max(0, at - self.before) : newest + 1]
                steps[at] = self._rewritten(
                    asked, chat.task, steps[at], window, newest=newest == len(steps) - 1
                )
        detail = ""
        if steps == list(chat.steps):
            detail = f"no past step of {self.threshold_tokens} tokens or more was made shorter"
        return Shortened(
            messages=[*chat.preamble, *(m for step in steps for m in step.messages)],
            input_tokens=asked.input_tokens,
            output_tokens=asked.output_tokens,
            detail=detail,
        )

    def _rewritten(
        self, asked: Asked, task: str, step: ChatStep, window: Sequence[ChatStep], *, newest: bool
    ) -> ChatStep:
        words = max(8, int(len(step.observation.split()) * self.keep_ratio))
        question = QUESTION.format(
            task=task, steps=written(window), number=step.number, words=words
        )
        said = asked.ask(ROLE, question, newest=newest)
        if not said or self.counter.count(said) >= self.counter.count(step.observation):
            return step
        messages = (step.messages[0], with_text(step.messages[1], said))
        return replace(
            step, messages=messages, observation=said, tokens=tokens_of(messages, self.counter)
        )
