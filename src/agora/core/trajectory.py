"""The nouns of the core: a step, the trajectory it belongs to, the query it is scored against."""

from dataclasses import dataclass
from typing import NamedTuple

from agora.errors import RecallError


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call of an action: the tool's name, and its arguments as sent."""

    name: str
    arguments: str


class Result(NamedTuple):
    """The result of one call."""

    text: str
    call: int = 0
    """Which call of the step it answers, from 0; -1 where none is known."""
    failed: bool = False
    """True if the wire format marks it as an error. False proves nothing: frameworks set it on
    every result."""


class Step(NamedTuple):
    """An action of the agent with the observation that came back.

    A step stays whole, keeps its action with a note in place of each result, becomes a line in a
    marker, or goes. An environment cannot read half an action, so nothing in this package cuts
    inside a part.
    """

    # A named tuple, since every call makes one of every step: a frozen dataclass of that many
    # fields takes three times as long to make, a tenth of all that reading the messages takes.

    number: int
    """Its place in the trajectory, from 1. Markers, pins and recall name a step by it."""
    action: str
    """The action without reasoning: the calls, or the text of an agent that acts by text."""
    observation: str
    tokens: int
    """Tokens of the step in the prompt, counted once, when it is parsed."""
    calls: tuple[Call, ...] = ()
    thought: str = ""
    """The reasoning that belongs to the step. Scorers do not see it."""
    removable: bool = True
    """True if the wire format lets the whole step be removed; otherwise its calls stay."""
    fixed: str = ""
    """Why this step is never a candidate, or empty."""
    action_tokens: int = 0
    """Tokens of its action with every result emptied; 0 if not known."""
    failed: bool = False
    """True if the wire format marks its only result as an error."""
    thinking_tokens: int = 0
    """Tokens of its signed thinking, part of `tokens` and of `action_tokens`."""
    several: tuple[Result, ...] = ()
    """Its results, in their order, where they are more than one."""
    joined: bool = False
    """True if its action joins the texts of several messages, which are not adjacent."""

    @property
    def results(self) -> tuple[Result, ...]:
        """The results, call by call."""
        return self.several or (Result(self.observation, 0, self.failed),)

    @property
    def residue_tokens(self) -> int:
        """Tokens that remain after an edit: the calls, if the format does not let them go."""
        return 0 if self.removable else self.action_tokens

    def without_thinking(self) -> "Step":
        """Return the step with its size without thinking."""
        if not self.thinking_tokens:
            return self
        return self._replace(
            tokens=self.tokens - self.thinking_tokens,
            action_tokens=self.action_tokens - self.thinking_tokens,
            thinking_tokens=0,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Utterance:
    """Text between steps that is never a candidate: the user's messages, the agent's answers."""

    after: int
    """How many steps came before it."""
    text: str
    tokens: int
    by_user: bool


@dataclass(frozen=True, slots=True)
class Query:
    """The query of a scorer: the task, and the newest text that the agent has to act on."""

    task: str
    observation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Trajectory:
    """An agent's task, its steps since, and the texts between them."""

    task: str
    """The first user message."""
    preamble: str
    """All text before the first step, the task included."""
    preamble_tokens: int
    """System, tools and everything before the first step."""
    steps: tuple[Step, ...]
    utterances: tuple[Utterance, ...] = ()
    pending_tokens: int = 0
    """An assistant block that is still waiting for its observation."""
    unmarked_tokens: int = 0
    """How much of the preamble a cache that keeps only marked places has to store again after an
    edit: the task, to whose message a marker is attached, or all of it if nothing there is marked.
    """
    bound: bool = False
    """True if the model binds thinking to the prefix, so that an edit removes older thinking."""
    reading_tools: tuple[str, ...] = ()
    """Tools of the request that say of themselves that they only read."""
    changing_tools: tuple[str, ...] = ()
    """Tools of the request that say of themselves that they change something."""

    @property
    def fixed_tokens(self) -> int:
        """Tokens that are always sent."""
        said = sum(utterance.tokens for utterance in self.utterances)
        return self.preamble_tokens + said + self.pending_tokens

    @property
    def tokens(self) -> int:
        """The whole prompt."""
        return self.fixed_tokens + sum(step.tokens for step in self.steps)

    def recall(self, number: object) -> str:
        """Return a step in full, for the answer to a call of the recall tool.

        Raises:
            RecallError: No step has that number.
        """
        if type(number) is not int or not 1 <= number <= len(self.steps):
            raise RecallError(number, len(self.steps))
        step = self.steps[number - 1]
        parts = [f"step {step.number}", step.thought, step.action, step.observation]
        return "\n".join(part for part in parts if part)

    def said_before(self, step: int) -> tuple[Utterance, ...]:
        """Return the texts before the step of that number."""
        return tuple(u for u in self.utterances if u.after < step)

    def query(self, last: int, *, newest: bool) -> Query:
        """Return the query of an edit after `last` steps: the observation of the last of them.

        With `newest` it is the user's text after that, if there is any. An edit
        that must stay the same while the conversation grows must not use it.
        """
        observation = self.steps[last - 1].observation if last else self.task
        if newest:
            for utterance in self.utterances:
                if utterance.after == last and utterance.by_user:
                    observation = utterance.text
        return Query(self.task, observation)
