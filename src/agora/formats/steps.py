"""Parsed messages grouped into steps: an action of the agent with all its results."""

from dataclasses import dataclass, field

from agora.core.request import Observations, Request
from agora.core.tokens import MESSAGE_TOKENS
from agora.core.trajectory import Call, Result, Step, Trajectory, Utterance
from agora.formats.base import MessageRole, Parsed, ParsedMessage
from agora.formats.cache_ttl import marks_only_the_end
from agora.formats.text_agents import TextActions

# Bound once: looking a member up costs as much as a third of reading a short message does.
_USER, _AGENT = MessageRole.USER, MessageRole.AGENT
_RESULT, _INLINE_SYSTEM = MessageRole.RESULT, MessageRole.INLINE_SYSTEM


@dataclass(slots=True)
class _OpenStep:
    """A step while its messages are still coming in."""

    agent: list[int] = field(default_factory=list)
    results: list[int] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    call_numbers: dict[str, int] = field(default_factory=dict)
    """The place among `calls` of each call with an id."""
    answers: list[tuple[str, int, bool]] = field(default_factory=list)
    """The fields of each `Result`; results are made when the step closes, if it has several."""
    thoughts: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    observations: list[str] = field(default_factory=list)
    agent_tokens: int = 0
    result_tokens: int = 0
    thinking_tokens: int = 0
    acts: bool = False
    keep_messages: bool = False
    keep_reason: str = ""

    def step(self, number: int, *, keep_messages: bool) -> Step:
        thoughts = self.thoughts
        if self.calls:
            action = "\n".join([f"{call.name} {call.arguments}" for call in self.calls])
            thoughts += self.texts
        else:
            action = "\n".join(self.texts)
        # Positional arguments: that many by name take twice as long.
        return Step(
            number,
            action,
            "\n".join(self.observations),
            self.agent_tokens + self.result_tokens,
            tuple(self.calls),
            "\n".join(thoughts),
            not (keep_messages or self.keep_messages),
            self.keep_reason,
            self.agent_tokens + MESSAGE_TOKENS * len(self.results),
            len(self.answers) == 1 and self.answers[0][2],
            self.thinking_tokens,
            tuple(map(Result._make, self.answers)) if len(self.answers) > 1 else (),
            not self.calls and len(self.texts) > 1,
        )


class StepBuilder:
    """Groups parsed messages into steps: closed sets over tool ids.

    A step opens with the agent's first message and takes in everything until its last call is
    answered. Nothing else can open while a call waits, so parallel, late and out-of-order results
    end in the step they belong to. A provider would have refused a request sent in between.
    """

    def __init__(
        self,
        *,
        fixed_tokens: int,
        observations: Observations | None = None,
        system: str = "",
        keep_messages: bool = False,
        split_turns: bool = False,
        bound: bool = False,
    ) -> None:
        """Start before the first message.

        Args:
            fixed_tokens: The tokens of all that precedes the messages.
            observations: The caller's word on which user messages are observations.
            system: The system text beside the messages.
            keep_messages: True if the messages of steps must stay. May be set on the way: it
                holds for every step that closes from then on.
            split_turns: True if each message of the agent is an answer of its own. Its text before
                a call then stays, so that the roles still alternate.
            bound: True if an edit costs the model the reasoning before it.
        """
        self.keep_messages = keep_messages
        self._split_turns = split_turns
        self._bound = bound
        self._preamble_tokens = fixed_tokens
        self._task_tokens = 0
        self._task: str | None = None
        self._step_of_message: list[int] = []
        self._thinking: list[int] = []
        self._preamble: list[str] = []
        self._steps: list[Step] = []
        self._utterances: list[Utterance] = []
        self._open: _OpenStep | None = None
        self._waiting: set[str] = set()
        self._has_holder = True
        """False after a summary that replaces the task, until a message could hold a marker."""
        self._early: set[str] = set()
        """Calls made before the task, which stay. So do their results, however late they come."""
        self._text_actions: TextActions | None = None
        if observations != "none":
            self._text_actions = TextActions(all_user=observations == "user", system=system)

    def add(self, message: ParsedMessage) -> None:
        """Take in the next message."""
        text_actions = self._text_actions
        if text_actions is None:
            self._group(message)
            return
        for ready in text_actions.add(message):
            self._group(ready)
        if text_actions.ended:
            self._text_actions = None

    def _group(self, message: ParsedMessage) -> None:
        position = len(self._step_of_message)
        self._step_of_message.append(0)
        self._thinking.append(message.thinking_tokens)
        role = message.role
        if message.signed and not self._bound:
            # From here on, not from the start: earlier prompts had no signature.
            self.keep_messages = True
        if self._task is None:
            self._preamble_tokens += message.tokens
            self._preamble.append(message.text)
            self._early.update([call_id for call_id, _ in message.calls])
            if role is _USER or message.summary:
                self._task = message.text
                self._task_tokens = message.tokens
                self._has_holder = role is _USER
        elif role is _AGENT:
            self._act(position, message)
        elif (
            role is _RESULT
            and self._open is not None
            and (not self._early or self._early.isdisjoint(message.answers))
        ):
            self._observe(position, message, self._open)
        else:
            self._utter(message.text, message.tokens, role)

    def _act(self, position: int, message: ParsedMessage) -> None:
        step = self._open
        if (
            step is None
            or (step.results and not self._waiting)
            or (self._split_turns and message.calls and not step.acts)
        ):
            self._close()
            # Its result is the first message that could hold a marker, if no user message is.
            step = self._open = _OpenStep(keep_messages=not self._has_holder)
            self._has_holder = True
        step.agent.append(position)
        step.agent_tokens += message.tokens
        step.thinking_tokens += message.thinking_tokens
        if message.text:
            step.texts.append(message.text)
        if message.thought:
            step.thoughts.append(message.thought)
        for call_id, call in message.calls:
            step.acts = True
            self._waiting.add(call_id)
            self._early.discard(call_id)
            if call.name:
                step.call_numbers[call_id] = len(step.calls)
                step.calls.append(call)
        step.keep_reason = step.keep_reason or message.keep_reason

    def _observe(self, position: int, message: ParsedMessage, step: _OpenStep) -> None:
        step.results.append(position)
        step.observations.append(message.text)
        step.result_tokens += message.tokens
        self._waiting.difference_update(message.answers)
        step.keep_reason = step.keep_reason or message.keep_reason
        results = message.results or ((message.text, False),)
        for at, (text, failed) in enumerate(results):
            call_id = message.answers[at] if at < len(message.answers) else ""
            step.answers.append((text, step.call_numbers.get(call_id, -1), failed))
        if message.user_text is not None:
            self._utter(message.user_text, message.user_tokens, _USER)

    def _utter(self, text: str, tokens: int, role: MessageRole) -> None:
        """Add text that is not part of a step.

        If a user message follows a step at once, removing the step could leave two user messages
        side by side, which strict chat templates refuse. The messages of such a step stay. The
        same holds for system text inside Anthropic's messages, which must follow a user message.
        """
        self._has_holder = self._has_holder or role is _USER
        step = self._open
        if step is not None:
            if not step.acts:
                self._close()
            elif role is _USER or role is _INLINE_SYSTEM:
                step.keep_messages = True
                if not self._waiting:
                    self._close()
        complete = self._open is not None and not self._waiting
        after = len(self._steps) + complete
        by_user = role is _USER
        self._utterances.append(Utterance(after=after, text=text, tokens=tokens, by_user=by_user))

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
            self._step_of_message[position] = number
        for position in step.results:
            self._step_of_message[position] = -number
        self._steps.append(step.step(number, keep_messages=self.keep_messages))

    def parsed(self, request: Request) -> Parsed:
        """Return the trajectory once every message is in."""
        for message in self._text_actions.rest() if self._text_actions else ():
            self._group(message)
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
        return Parsed(
            request.messages,
            trajectory,
            self._step_of_message,
            thinking_tokens=self._thinking,
        )
