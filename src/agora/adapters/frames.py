"""The frames that programs put around what an agent observes.

A chat without tool calls may be an agent's or a person's. What tells them apart is a frame that
only a program writes, around the whole of a user message, behind a message in which the agent acts.
The first answer that the agent gets decides; no frame is guessed, and none is decided later on.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What the agent said, and the message that came back."""

    said: str
    answer: str
    speaker: str = ""
    """The name that a program gave the speaker; nobody types it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """What stands before the agent's first word."""

    system: str = ""
    task: str = ""
    """The last user message before the agent speaks."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One way in which a program hands an observation to its agent."""

    name: str
    holds: Callable[[Reply], bool]
    """Tells whether the agent acted and the whole answer is inside the frame."""
    opens: Callable[[Reply, Prompt], bool]
    """Tells whether an reply that it holds may be the first: this takes more evidence."""


def first_frame(reply: Reply, prompt: Prompt) -> Frame | None:
    r"""Return the frame of the first answer that an agent gets, if it is one that is known.

    >>> ran = "<returncode>0</returncode>\n<output>\na.py\n</output>"
    >>> first_frame(Reply(said="```bash\nls\n```", answer=ran), Prompt()).name
    'returncode'
    >>> first_frame(Reply(said="```bash\nls\n```", answer=ran + "\nAnd now?"), Prompt())
    """
    for frame in FRAMES:
        if frame.holds(reply) and frame.opens(reply, prompt):
            return frame
    return None


def framed(note: str, answer: str) -> str:
    r"""Return a note in the frame of the answer that it replaces.

    >>> framed("[removed]", "<returncode>1</returncode>\n<output>\nno such file\n</output>")
    '<returncode>1</returncode>\n<output>\n[removed]\n</output>'
    >>> framed("[removed]", "Observation 3: You see a key.")
    'Observation 3: [removed]'
    """
    ran = _RETURNCODE.match(answer)
    if ran:
        return f"{ran[0].strip()}\n<output>\n{note}\n</output>"
    opening = _MARKED.match(answer) or _EXECUTED.match(answer)
    if opening:
        return f"{opening[0].strip()} {note}"
    tag = _OPENING.match(answer.lstrip())
    if tag and tag[1] in _TAGS and answer.rstrip().endswith(f"</{tag[1]}>"):
        return f"{tag[0]}\n{note}\n</{tag[1]}>"
    if _ends_in_shell(answer):
        return f"{note}\n{answer[answer.rfind('(Open file: ') :]}"
    return note


_MARKED = re.compile(
    r"\s*(?:Observation(?: \d{1,6})?:|OBSERVATION:|\[(?:Observation|OBSERVATION)\])"
)
_PLAN = re.compile(r"^(?:Thought|THOUGHT)(?: \d{1,6})?:|^DISCUSSION$", re.MULTILINE)
_ACTION = re.compile(r"^Action(?: \d{1,6})?:", re.MULTILINE)
_INPUT = re.compile(r"^Action Input(?: \d{1,6})?:", re.MULTILINE)
_FENCE = re.compile(r"^(?:```|<code>)", re.MULTILINE)
_CALLING = re.compile(r"^Calling tools:\n\[", re.MULTILINE)
_CALL_TAG = re.compile(
    r"^<(?:tool_call|tool_use|tool_code|function_calls?|function=|invoke |execute_\w{1,20}>)",
    re.MULTILINE,
)


def _does(said: str) -> bool:
    """Tell whether something in what the agent said can be carried out."""
    return any(mark.search(said) for mark in (_FENCE, _ACTION, _CALLING, _CALL_TAG))


def _acts(said: str) -> bool:
    """Tell whether the agent speaks as one: it plans and acts under marks of its loop.

    A fenced block alone is no sign of it, nor is an `Action:` line: assistants
    write both for people.
    """
    if _PLAN.search(said):
        return bool(_ACTION.search(said) or _FENCE.search(said))
    return bool((_ACTION.search(said) and _INPUT.search(said)) or _CALLING.search(said))


def _marked(name: str, mark: str) -> Frame:
    """Return a frame that opens with a mark and closes nowhere, so the agent's side has to tell."""
    opening = re.compile(rf"\s*{mark}")
    return Frame(
        name,
        lambda reply: bool(opening.match(reply.answer)) and _does(reply.said),
        lambda reply, prompt: _acts(reply.said),  # noqa: ARG005
    )


_OPENING = re.compile(r"<([a-z_]{1,32})>")
_RETURNCODE = re.compile(r"\s*<returncode>-?\d{1,10}</returncode>")
_RAN = frozenset(
    {"output", "warning", "exception", "output_head", "elided_chars", "output_tail", "stderr"}
)


def _enclosed(text: str, at: int, tags: frozenset[str]) -> bool:
    """Tell whether only elements with these tags are left from `at` on, and at least one.

    The first closing tag closes. Behind one that is part of the output, what is left counts as
    somebody's words, as it should: nothing tells the two apart.
    """
    found = False
    while True:
        while at < len(text) and text[at].isspace():
            at += 1
        if at == len(text):
            return found
        opening = _OPENING.match(text, at)
        if opening is None or opening[1] not in tags:
            return False
        closing = f"</{opening[1]}>"
        end = text.find(closing, opening.end())
        if end < 0:
            return False
        at = end + len(closing)
        found = True


def _ran(reply: Reply) -> bool:
    code = _RETURNCODE.match(reply.answer)
    if code is None or not _FENCE.search(reply.said):
        return False
    return _enclosed(reply.answer, code.end(), _RAN)


def _tagged(tag: str, *, telling: bool) -> Frame:
    """Return the frame of one tag; `telling` ones stand in no text but an agent's."""
    tags = frozenset({tag})

    def opens(reply: Reply, prompt: Prompt) -> bool:  # noqa: ARG001
        return _acts(reply.said) or (telling and bool(_CALL_TAG.search(reply.said)))

    return Frame(
        tag,
        lambda reply: _enclosed(reply.answer, 0, tags) and _does(reply.said),
        opens,
    )


_SHELL = re.compile(
    r"\(Open file: [^\n]{1,4096}\)\n\(Current directory: [^\n]{1,4096}\)\n"
    r"(?:\(Interactive session: [^\n]{1,4096}\)\n)?bash-\$\s*"
)
_SHELL_LOOK = 16_384
_SHELL_TOLD = "(Open file: <path>)"


def _ends_in_shell(text: str) -> bool:
    start = text.rfind("(Open file: ", max(0, len(text) - _SHELL_LOOK))
    return start >= 0 and _SHELL.fullmatch(text, start) is not None


_EXECUTORS = frozenset({"Computer_terminal", "code_executor", "code_executor_agent"})
_EXECUTED = re.compile(
    r"exitcode: \d{1,6} \(execution (?:failed|succeeded)\)\nCode output:"
    r"|There is no code from the last \d{1,3} messages? for me to execute\."
)


def _always(reply: Reply, prompt: Prompt) -> bool:  # noqa: ARG001
    return True


_TELLING = (
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
_TAGS = (*_TELLING, "output", "stdout", "command_output")

FRAMES: tuple[Frame, ...] = (
    # mini-swe-agent.
    Frame("returncode", _ran, _always),
    # SWE-agent: the shell's state closes it. What stands before that may be anything, so the
    # system text has to speak of it and the task has to end the same way.
    Frame(
        "shell",
        lambda reply: _ends_in_shell(reply.answer),
        lambda reply, prompt: _SHELL_TOLD in prompt.system and _ends_in_shell(prompt.task),  # noqa: ARG005
    ),
    # AutoGen.
    Frame(
        "executor",
        lambda reply: reply.speaker in _EXECUTORS and bool(_EXECUTED.match(reply.answer)),
        _always,
    ),
    # ReAct, smolagents, SWE-agent 1.
    _marked("Observation:", r"Observation(?: \d{1,6})?:"),
    _marked("OBSERVATION:", r"OBSERVATION:"),
    _marked("[Observation]", r"\[(?:Observation|OBSERVATION)\]"),
    *(_tagged(tag, telling=tag in _TELLING) for tag in _TAGS),
)
"""Every frame that is known, in the order in which they are tried."""
