"""ACON: all but the newest steps are replaced by one summary that is kept up to date."""

from dataclasses import dataclass, field

from agora.core.tokens import TokenCounter
from agora_lab.backbones.base import Backbone
from agora_lab.chats import COUNTER, ChatStep, append, read
from agora_lab.methods.asking import Asking, written
from agora_lab.methods.base import Messages, Shortened

ROLE = "You write the memory of an agent that acts by text."
QUESTION = """The agent's task:
{task}

What its memory says so far:
{summary}

What it did since:
{steps}

Write the memory anew, so that the agent can go on with it alone. {guideline} Use at most \
{words} words. Answer with the memory and nothing else."""
GUIDELINE = """Say where the agent is, what it holds, what it found where, what it has tried \
without success and what is left to do. Copy names and numbers of objects, places and results \
exactly as they are written. Leave out what the task does not need."""
HISTORY_TOKENS = 4_096


@dataclass(slots=True)
class Acon:
    """Has a backbone summarise the past whenever it exceeds a threshold.

    Our implementation of Kang et al. (2025). Their guideline, improved on failed
    episodes, needs such episodes: here it is a parameter, and the default is ours and
    was not improved. Their rewriting of single observations is left out, so the
    newest ones are unchanged.
    """

    backbone: Backbone
    history_tokens: int | None = HISTORY_TOKENS
    """Steps and summary above this are summarised; None for the budget of `keep_ratio`."""
    keep_ratio: float = 0.25
    k_recent: int = 2
    guideline: str = GUIDELINE
    counter: TokenCounter = COUNTER
    _asking: Asking = field(init=False)

    def __post_init__(self) -> None:
        self._asking = Asking(self.backbone, self.counter)

    def shorten(self, messages: Messages) -> Shortened:
        """Return the messages with the past summarised."""
        chat = read(messages, self.counter)
        asked = self._asking.begin()
        summary = ""
        since: list[ChatStep] = []
        summed_up = 0
        for step in chat.steps:
            since.append(step)
            tokens = self.counter.count(summary) + sum(s.tokens for s in since)
            room = self.history_tokens
            if room is None:
                then = chat.after(step.number)
                room = then.room(self.keep_ratio, self.k_recent) - then.preamble_tokens
            old, recent = since[: -self.k_recent], since[-self.k_recent :]
            if tokens <= room or not old:
                continue
            left = room - sum(s.tokens for s in recent)
            question = QUESTION.format(
                task=chat.task,
                summary=summary or "nothing",
                steps=written(old),
                guideline=self.guideline,
                # Three words are about four tokens.
                words=max(24, left * 3 // 4),
            )
            newest = step.number == len(chat.steps)
            said = asked.ask(ROLE, question, newest=newest)
            if not said:
                continue
            summary, since = said, recent
            summed_up = old[-1].number
        if not summed_up:
            return Shortened(
                messages=messages,
                input_tokens=asked.input_tokens,
                output_tokens=asked.output_tokens,
                detail="the past is below the threshold, or no summary was given",
            )
        shortened = list(chat.preamble)
        append(shortened, f"[steps 1-{summed_up} in short]\n{summary}")
        for step in since:
            shortened += step.messages
        return Shortened(
            messages=shortened,
            input_tokens=asked.input_tokens,
            output_tokens=asked.output_tokens,
        )
