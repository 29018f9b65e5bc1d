"""HiAgent: steps of a finished subgoal replaced by a summary of what they found."""

from dataclasses import dataclass, field

from agora_lab.backbones.base import Backbone
from agora_lab.chats import ChatStep, append, read
from agora_lab.methods.asking import Asked, Asking, written
from agora_lab.methods.base import Messages, Shortened

ROLE = "You keep the working memory of an agent that acts by text."
PLACE = """The agent's task:
{task}

Its current subgoal: {subgoal}

What it did for it so far:
{steps}

What it did now:
{step}

Is what it did now still part of the current subgoal? If so, answer with the one word SAME. \
If it began something else, answer with NEW: and the new subgoal in at most ten words. \
Answer with one line."""
SUM_UP = """The agent's task:
{task}

A subgoal it has worked on: {subgoal}

What it did for it:
{steps}

Say in one or two short sentences what came of it, for the agent to rely on later. Name \
every object, place, number and state that it may need again, exactly as written above. \
Say whether the subgoal was reached."""
_OWN = "subgoal:"


@dataclass(slots=True)
class _Subgoal:
    name: str
    steps: list[ChatStep]


@dataclass(slots=True)
class HiAgent:
    """Keeps the steps of the current subgoal, and a summary of each earlier one.

    Our implementation of Hu et al. (2025), whose code was not released at the time of
    writing. There the agent names its subgoals itself. A line `Subgoal: ...` in an
    agent's message is used if present; otherwise the backbone is asked, once per
    step, whether a new subgoal has begun. The backbone decides how much is kept: the
    method has no `keep_ratio`.
    """

    backbone: Backbone
    _asking: Asking = field(init=False)

    def __post_init__(self) -> None:
        self._asking = Asking(self.backbone)

    def shorten(self, messages: Messages) -> Shortened:
        """Return the messages with the steps of finished subgoals summarised."""
        chat = read(messages)
        asked = self._asking.begin()
        finished: list[str] = []
        current: _Subgoal | None = None
        for step in chat.steps:
            newest = step.number == len(chat.steps)
            name = self._begun(asked, chat.task, current, step, newest=newest)
            if current is None:
                current = _Subgoal(name or "explore", [step])
            elif not name or name == current.name:
                current.steps.append(step)
            else:
                finished.append(self._sum_up(asked, chat.task, current, newest=newest))
                current = _Subgoal(name, [step])
        if not finished or current is None:
            return Shortened(
                messages=messages,
                input_tokens=asked.input_tokens,
                output_tokens=asked.output_tokens,
                detail="no subgoal is finished",
            )
        shortened = list(chat.preamble)
        append(shortened, "\n".join(finished))
        for step in current.steps:
            shortened += step.messages
        return Shortened(
            messages=shortened,
            input_tokens=asked.input_tokens,
            output_tokens=asked.output_tokens,
        )

    def _begun(
        self, asked: Asked, task: str, current: _Subgoal | None, step: ChatStep, *, newest: bool
    ) -> str:
        """Return the subgoal that begins with this step, or nothing if the last one continues."""
        for line in step.action.splitlines():
            if line.strip().lower().startswith(_OWN):
                return line.strip()[len(_OWN) :].strip()
        question = PLACE.format(
            task=task,
            subgoal=current.name if current else "none yet",
            steps=written(current.steps) if current else "nothing",
            step=written([step]),
        )
        line = asked.ask(ROLE, question, newest=newest).partition("\n")[0].strip()
        head, colon, name = line.partition(":")
        return name.strip() if colon and head.strip().upper() == "NEW" else ""

    def _sum_up(self, asked: Asked, task: str, subgoal: _Subgoal, *, newest: bool) -> str:
        question = SUM_UP.format(task=task, subgoal=subgoal.name, steps=written(subgoal.steps))
        said = " ".join(asked.ask(ROLE, question, newest=newest).split())
        first, last = subgoal.steps[0].number, subgoal.steps[-1].number
        return f"[steps {first}-{last}, {subgoal.name}: {said}]"
