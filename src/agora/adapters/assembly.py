"""Messages read one by one and grouped into steps: closed sets over tool ids."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum

from agora.adapters.base import Parsed
from agora.adapters.lifetimes import marks_only_the_end
from agora.core.request import Request
from agora.core.tokens import MESSAGE_TOKENS
from agora.core.trajectory import Call, Result, Step, Trajectory, Utterance


class Kind(IntEnum):
    """What a message is to the agent's loop."""

    FIXED = 0
    """System and developer text, and whatever stands outside the loop."""
    USER = 1
    AGENT = 2
    RESULT = 3
    PLACED = 4
    """Text that has to go on following the message it follows: system text inside Anthropic's
    messages, and whatever has a role that is not known."""


# Bound once: looking a member up costs as much as a third of reading a short message does.
_USER, _AGENT, _RESULT, _PLACED = Kind.USER, Kind.AGENT, Kind.RESULT, Kind.PLACED


@dataclass(slots=True)
class Reading:
    """One message as an adapter reads it."""

    kind: Kind
    tokens: int
    text: str = ""
    thought: str = ""
    calls: tuple[tuple[str, Call], ...] = ()
    answers: tuple[str, ...] = ()
    user_text: str | None = None
    """What the user says in a message that also carries results."""
    user_tokens: int = 0
    opaque: str = ""
    """Why a step with this message is never a candidate."""
    results: tuple[tuple[str, bool], ...] = ()
    """The text of each result, and whether the format says that it is an error; where there is one
    that is none, `text` is enough."""
    speaker: str = ""
    """The name that the caller gave whoever speaks."""
    mixed: bool = False
    """Whether there is more in it than text."""
    thinking_tokens: int = 0
    """What its thinking blocks cost, which is part of `tokens`."""


@dataclass(slots=True)
class _OpenStep:
    """A step while its messages are still coming in."""

    agent: list[int] = field(default_factory=list)
    results: list[int] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    called: dict[str, int] = field(default_factory=dict)
    """Which of the calls has an id."""
    came: list[tuple[str, int, bool]] = field(default_factory=list)
    """Results that are made when the step closes, where it has several."""
    thoughts: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    observations: list[str] = field(default_factory=list)
    agent_tokens: int = 0
    result_tokens: int = 0
    thinking_tokens: int = 0
    acts: bool = False
    masked: bool = False
    opaque: str = ""

    def step(self, number: int, *, mask: bool) -> Step:
        thoughts = self.thoughts
        if self.calls:
            action = "\n".join([f"{call.name} {call.arguments}" for call in self.calls])
            thoughts += self.texts
        else:
            action = "\n".join(self.texts)
        action_tokens = self.agent_tokens + MESSAGE_TOKENS * len(self.results)
        removable = not (mask or self.masked)
        failed = len(self.came) == 1 and self.came[0][2]
        several = tuple(map(Result._make, self.came)) if len(self.came) > 1 else ()
        joined = not self.calls and len(self.texts) > 1
        # In the order of the fields: so many by name take twice as long.
        return Step(
            number,
            action,
            "\n".join(self.observations),
            self.agent_tokens + self.result_tokens,
            tuple(self.calls),
            "\n".join(thoughts),
            removable,
            self.opaque,
            action_tokens,
            failed,
            self.thinking_tokens,
            several,
            joined,
        )


class Assembly:
    """Groups readings into steps: closed sets over tool ids.

    A step opens with the agent's first message and takes in everything until
    its last call is answered. While a call waits nothing else can open, so
    parallel, late and out-of-order results end in the step they belong to: a
    provider would have refused a request sent in between.
    """

    def __init__(
        self, *, fixed_tokens: int, mask: bool, apart: bool = False, bound: bool = False
    ) -> None:
        """Start with what stands before the messages.

        `mask`, which may be set on the way, masks every step that closes from
        then on. `apart` says that each message of the agent is an answer of
        its own: then what it said before a call stays, as between two of the
        user's messages it keeps the roles alternating. `bound` is what the
        trajectory says of itself.
        """
        self.owners: list[int] = []
        self._thinking: list[int] = []
        self.mask = mask
        self._apart = apart
        self._bound = bound
        self._preamble_tokens = fixed_tokens
        self._task_tokens = 0
        self._preamble: list[str] = []
        self._task: str | None = None
        self._steps: list[Step] = []
        self._utterances: list[Utterance] = []
        self._open: _OpenStep | None = None
        self._waiting: set[str] = set()
        self._early: set[str] = set()
        """Calls made before the task, which stay. So do their results, however late they come."""

    def add(self, reading: Reading) -> None:
        """Take in the next message."""
        position = len(self.owners)
        self.owners.append(0)
        self._thinking.append(reading.thinking_tokens)
        kind = reading.kind
        if self._task is None:
            self._preamble_tokens += reading.tokens
            self._preamble.append(reading.text)
            self._early.update(call_id for call_id, _ in reading.calls)
            if kind is _USER:
                self._task = reading.text
                self._task_tokens = reading.tokens
        elif kind is _AGENT:
            self._act(position, reading)
        elif (
            kind is _RESULT
            and self._open is not None
            and (not self._early or self._early.isdisjoint(reading.answers))
        ):
            self._observe(position, reading, self._open)
        else:
            self._say(reading, by_user=kind is _USER, placed=kind is _USER or kind is _PLACED)

    def _act(self, position: int, reading: Reading) -> None:
        step = self._open
        if (
            step is None
            or (step.results and not self._waiting)
            or (self._apart and reading.calls and not step.acts)
        ):
            self._close()
            step = self._open = _OpenStep()
        step.agent.append(position)
        step.agent_tokens += reading.tokens
        step.thinking_tokens += reading.thinking_tokens
        if reading.text:
            step.texts.append(reading.text)
        if reading.thought:
            step.thoughts.append(reading.thought)
        for call_id, call in reading.calls:
            step.acts = True
            self._waiting.add(call_id)
            self._early.discard(call_id)
            if call.name:
                step.called[call_id] = len(step.calls)
                step.calls.append(call)
        step.opaque = step.opaque or reading.opaque

    def _observe(self, position: int, reading: Reading, step: _OpenStep) -> None:
        step.results.append(position)
        step.observations.append(reading.text)
        step.result_tokens += reading.tokens
        self._waiting.difference_update(reading.answers)
        step.opaque = step.opaque or reading.opaque
        results = reading.results or ((reading.text, False),)
        for at, (text, failed) in enumerate(results):
            answered = reading.answers[at] if at < len(reading.answers) else ""
            step.came.append((text, step.called.get(answered, -1), failed))
        if reading.user_text is not None:
            self._say(
                Reading(_USER, reading.user_tokens, reading.user_text), by_user=True, placed=True
            )

    def _say(self, reading: Reading, *, by_user: bool, placed: bool) -> None:
        """Take in text that is no part of a step.

        Where a user message follows a step at once, removing the step could
        leave two user messages side by side, and strict chat templates refuse
        that: such a step is masked instead. System text inside Anthropic's
        messages is `placed` too: it must stand right after a user message.
        """
        step = self._open
        if step is not None:
            if not step.acts:
                self._close()
            elif placed:
                step.masked = True
                if not self._waiting:
                    self._close()
        complete = self._open is not None and not self._waiting
        self._utterances.append(
            Utterance(
                after=len(self._steps) + complete,
                text=reading.text,
                tokens=reading.tokens,
                by_user=by_user,
            )
        )

    def _close(self) -> None:
        step, self._open = self._open, None
        if step is None:
            return
        if not step.acts:
            # The agent spoke and called nothing: an answer to the user, kept like the user's text.
            self._utterances.append(
                Utterance(
                    after=len(self._steps),
                    text="\n".join(step.texts),
                    tokens=step.agent_tokens,
                    by_user=False,
                )
            )
            return
        number = len(self._steps) + 1
        for position in step.agent:
            self.owners[position] = number
        for position in step.results:
            self.owners[position] = -number
        self._steps.append(step.step(number, mask=self.mask))

    def parsed(self, request: Request) -> Parsed:
        """Return the trajectory once every message is in."""
        messages = request.messages
        pending_tokens = 0
        step = self._open
        if step is not None:
            if step.results and not self._waiting:
                self._close()
            else:
                pending_tokens = step.agent_tokens + step.result_tokens
        trajectory = Trajectory(
            task=self._task or "",
            preamble="\n".join(self._preamble),
            preamble_tokens=self._preamble_tokens,
            steps=tuple(self._steps),
            utterances=tuple(self._utterances),
            pending_tokens=pending_tokens,
            unmarked_tokens=(
                self._preamble_tokens if marks_only_the_end(request) else self._task_tokens
            ),
            bound=self._bound,
        )
        return Parsed(messages, trajectory, self.owners, thinking_tokens=self._thinking)


def is_text(part: object) -> bool:
    """Tell whether a content part holds text and nothing else."""
    return isinstance(part, dict) and isinstance(part.get("text"), str)


def texts_of(parts: Iterable[object]) -> str:
    """Return the text of content parts, joined by newlines."""
    return "\n".join(
        part["text"]
        for part in parts
        if isinstance(part, dict) and isinstance(part.get("text"), str)
    )
