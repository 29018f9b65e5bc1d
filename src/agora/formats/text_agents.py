"""Agents that act by text: which of their chat messages are actions and observations.

A chat without tool calls may be an agent's or a person's. A template that only programs write,
around the whole of a user message that answers the agent, decides. The first answer that
the agent gets decides; no template is guessed, and none is decided later on. The decision about a
message depends only on those before it, so it never changes while a conversation grows.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from agora.core.request import Request
from agora.core.trajectory import Call, Trajectory
from agora.formats.base import MessageRole, ParsedMessage

ACTS_BY_TEXT = "acts by text? 0 steps seen; pass observations=user"
"""Reported for a long conversation without a step."""
LEAST_TURNS = 10
"""The number of the agent's messages in a long conversation."""
_TEXT_CALL = ("text", Call("", ""))
_MARK = re.compile(r"(?:^|\n)(Action|Observation)(?: \d{1,6})?:")


class Exchange(NamedTuple):
    """A message of the agent, and the user message that answers it."""

    action: str
    answer: str


@dataclass(frozen=True, slots=True)
class ObservationTemplate:
    """One way in which a program writes an observation for its agent."""

    name: str
    matches: Callable[[Exchange], bool]
    """Returns True if the agent acted and the template encloses the whole answer."""
    may_open: Callable[[Exchange, str, str], bool]
    """Returns True if a matching exchange may be the first: this takes more evidence. The texts
    are the system prompt and the task."""


class TextActions:
    """Finds the actions and observations of an agent that acts by text, message by message.

    User messages that are observations become results of the message before them. With `all_user`
    that is every user message after the first that answers the agent; otherwise those in the
    template of the first. It ends at the first tool call, and where the first answer has no
    template.
    """

    def __init__(self, *, all_user: bool, system: str) -> None:
        self.ended = False
        self._all_user = all_user
        self._system = system
        self._task: str | None = None
        self._template: ObservationTemplate | None = None
        self._agent: ParsedMessage | None = None
        """The agent's message, held back until it is known if the next one is its observation."""
        self._spoke = False

    def rest(self) -> Sequence[ParsedMessage]:
        """Return the message that is held back, if any."""
        agent, self._agent = self._agent, None
        return () if agent is None else (agent,)

    def add(self, message: ParsedMessage) -> Sequence[ParsedMessage]:
        """Take in the next message, and return those that are decided."""
        before = self.rest()
        role = message.role
        if message.calls or role is MessageRole.RESULT:
            self.ended = True
        elif role is MessageRole.AGENT:
            self._spoke = self._task is not None
            self._agent = message
            return before
        elif role is MessageRole.USER:
            if self._task is not None and self._spoke:
                return self._decide(before, message)
            self._task = message.text
        elif role is MessageRole.SYSTEM and self._template is None:
            self._system += f"\n{message.text}"
        return (*before, message)

    def _decide(
        self, before: Sequence[ParsedMessage], message: ParsedMessage
    ) -> Sequence[ParsedMessage]:
        if not before:
            # An observation answers only the agent's own words.
            self.ended = not self._all_user and self._template is None
            return (message,)
        [agent] = before
        if not self._all_user:
            exchange = Exchange(agent.text, message.text)
            matches = not message.mixed
            if self._template is None:
                template = first_template(exchange, self._system, self._task or "")
                self._template = template if matches else None
                self.ended = self._template is None
                matches = not self.ended
            else:
                matches = matches and self._template.matches(exchange)
            if not matches:
                return (agent, message)
        thought, action = split_thought(agent.text)
        return (
            replace(agent, calls=(_TEXT_CALL,), thought=thought, text=action),
            replace(message, role=MessageRole.RESULT, answers=(_TEXT_CALL[0],)),
        )


def may_act_by_text(request: Request, trajectory: Trajectory) -> bool:
    """Return True if a long conversation has no step, and the caller did not say why."""
    if trajectory.steps or request.observations is not None or isinstance(request.messages, str):
        return False
    return turns(request.messages) >= LEAST_TURNS


def turns(messages: Sequence[Any]) -> int:
    """Return the number of the agent's messages."""
    return sum(
        isinstance(message, dict) and message.get("role") in ("assistant", "model")
        for message in messages
    )


def split_thought(text: str) -> tuple[str, str]:
    """Return the reasoning before the first `Action:` line, and the action from there on."""
    for match in _MARK.finditer(text):
        if match[1] == "Action":
            return text[: match.start()].strip(), text[match.end() :].strip()
    return "", text.strip()


def first_template(exchange: Exchange, system: str, task: str) -> ObservationTemplate | None:
    r"""Return the template of the first answer that an agent gets, if it is a known one.

    >>> ran = "<returncode>0</returncode>\n<output>\na.py\n</output>"
    >>> first_template(Exchange("```bash\nls\n```", ran), "", "").name
    'returncode'
    >>> first_template(Exchange("```bash\nls\n```", ran + "\nAnd now?"), "", "")
    """
    for template in TEMPLATES:
        if template.matches(exchange) and template.may_open(exchange, system, task):
            return template
    return None


def in_template(note: str, answer: str) -> str:
    r"""Return a note in the template of the answer that it replaces.

    >>> in_template("[removed]", "<returncode>1</returncode>\n<output>\nno such file\n</output>")
    '<returncode>1</returncode>\n<output>\n[removed]\n</output>'
    >>> in_template("[removed]", "Observation 3: You see a key.")
    'Observation 3: [removed]'
    """
    if code := _RETURNCODE.match(answer):
        return f"{code[0].strip()}\n<output>\n{note}\n</output>"
    if opening := _PREFIXED.match(answer):
        return f"{opening[0].strip()} {note}"
    tag = _OPENING.match(answer.lstrip())
    if tag and tag[1] in _TAGS and answer.rstrip().endswith(f"</{tag[1]}>"):
        return f"{tag[0]}\n{note}\n</{tag[1]}>"
    if _ends_in_shell(answer):
        return f"{note}\n{answer[answer.rfind('(Open file: ') :]}"
    return note


_PREFIXED = re.compile(
    r"\s*(?:Observation(?: \d{1,6})?:|OBSERVATION:|\[(?:Observation|OBSERVATION)\])"
)
_PLAN = re.compile(r"^(?:Thought|THOUGHT)(?: \d{1,6})?:|^DISCUSSION$", re.MULTILINE)
_ACTION = re.compile(r"^Action(?: \d{1,6})?:", re.MULTILINE)
_INPUT = re.compile(r"^Action Input(?: \d{1,6})?:", re.MULTILINE)
_NEXT_TASK = "\nNew task:\n"
"""smolagents writes the user's next task behind the last observation, into the same message."""
_FENCE = re.compile(r"^(?:```|<code>)", re.MULTILINE)
_CALLING = re.compile(r"^Calling tools:\n\[", re.MULTILINE)
_CALL_TAG = re.compile(
    r"^<(?:tool_call|tool_use|tool_code|function_calls?|function=|invoke |execute_\w{1,20}>)",
    re.MULTILINE,
)


def _can_run(action: str) -> bool:
    """Return True if a program could run something in the agent's words."""
    return any(mark.search(action) for mark in (_FENCE, _ACTION, _CALLING, _CALL_TAG))


def _is_loop(action: str) -> bool:
    """Return True if the agent plans and acts under the marks of a loop.

    A fenced block alone is no sign of one, nor is an `Action:` line: assistants write both for
    people.
    """
    if _PLAN.search(action):
        return bool(_ACTION.search(action) or _FENCE.search(action))
    return bool((_ACTION.search(action) and _INPUT.search(action)) or _CALLING.search(action))


def _prefixed(name: str, prefix: str) -> ObservationTemplate:
    """Return a template that opens with a prefix and closes nowhere."""
    opening = re.compile(rf"\s*{prefix}")
    return ObservationTemplate(
        name,
        lambda exchange: (
            bool(opening.match(exchange.answer))
            and _can_run(exchange.action)
            and _NEXT_TASK not in exchange.answer
        ),
        lambda exchange, system, task: _is_loop(exchange.action),  # noqa: ARG005
    )


_OPENING = re.compile(r"<([a-z_]{1,32})>")
_RETURNCODE = re.compile(r"\s*<returncode>-?\d{1,10}</returncode>")
_RUN_TAGS = frozenset(
    {"output", "warning", "exception", "output_head", "elided_chars", "output_tail", "stderr"}
)


def _is_enclosed(text: str, at: int, tags: frozenset[str]) -> bool:
    """Return True if only elements with these tags are left from `at` on, and at least one.

    The first closing tag closes. If that tag is part of the output, the rest counts as somebody's
    words, since nothing distinguishes the two.
    """
    count = 0
    while True:
        while at < len(text) and text[at].isspace():
            at += 1
        if at == len(text):
            return count > 0
        opening = _OPENING.match(text, at)
        if opening is None or opening[1] not in tags:
            return False
        closing = f"</{opening[1]}>"
        end = text.find(closing, opening.end())
        if end < 0:
            return False
        at = end + len(closing)
        count += 1


def _is_run(exchange: Exchange) -> bool:
    code = _RETURNCODE.match(exchange.answer)
    if code is None or not _FENCE.search(exchange.action):
        return False
    return _is_enclosed(exchange.answer, code.end(), _RUN_TAGS)


def _tagged(tag: str, *, decisive: bool) -> ObservationTemplate:
    """Return the template of one tag; a decisive tag occurs in no text but an agent's."""
    tags = frozenset({tag})

    def may_open(exchange: Exchange, system: str, task: str) -> bool:  # noqa: ARG001
        return _is_loop(exchange.action) or (decisive and bool(_CALL_TAG.search(exchange.action)))

    return ObservationTemplate(
        tag,
        lambda exchange: _is_enclosed(exchange.answer, 0, tags) and _can_run(exchange.action),
        may_open,
    )


_SHELL = re.compile(
    r"\(Open file: [^\n]{1,4096}\)\n\(Current directory: [^\n]{1,4096}\)\n"
    r"(?:\(Interactive session: [^\n]{1,4096}\)\n)?bash-\$\s*"
)
_SHELL_CHARACTERS = 16_384
_SHELL_IN_SYSTEM = "(Open file: <path>)"


def _ends_in_shell(text: str) -> bool:
    start = text.rfind("(Open file: ", max(0, len(text) - _SHELL_CHARACTERS))
    return start >= 0 and _SHELL.fullmatch(text, start) is not None


_DECISIVE_TAGS = (
    "observation",
    "tool_response",
    "tool_result",
    "tool_results",
    "tool_output",
    "function_result",
    "function_results",
    "function_response",
    "execution_result",
    "execution_output",
)
_TAGS = (*_DECISIVE_TAGS, "output", "stdout", "command_output")

TEMPLATES: tuple[ObservationTemplate, ...] = (
    # mini-swe-agent.
    ObservationTemplate("returncode", _is_run, lambda exchange, system, task: True),  # noqa: ARG005
    # SWE-agent: the shell's state closes it. Anything may come before that, so the system text
    # has to describe it and the task has to end the same way.
    ObservationTemplate(
        "shell",
        lambda exchange: _ends_in_shell(exchange.answer),
        lambda exchange, system, task: _SHELL_IN_SYSTEM in system and _ends_in_shell(task),  # noqa: ARG005
    ),
    # ReAct, smolagents, SWE-agent 1.
    _prefixed("Observation:", r"Observation(?: \d{1,6})?:"),
    _prefixed("OBSERVATION:", r"OBSERVATION:"),
    _prefixed("[Observation]", r"\[(?:Observation|OBSERVATION)\]"),
    *(_tagged(tag, decisive=tag in _DECISIVE_TAGS) for tag in _TAGS),
)
"""Every known template, in the order in which they are tried."""
