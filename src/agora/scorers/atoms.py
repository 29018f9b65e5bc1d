"""The text form of a step, in training and in serving.

After the paper's appendix B: action and observation apart, reasoning dropped, the observation
flattened to one line of names and values. One generic rule for every text, without the wording of
any environment.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agora.core.trajectory import Query, Step

SIDE_CHARACTERS = 1_500
"""Characters read of each side of a pair, as in the paper."""
_READ_CHARACTERS = 65_536
"""Characters of a text that are parsed; a scorer reads far fewer."""
_MAX_DEPTH = 64
_FENCE = "```"
_REASONING = re.compile(r"(?:think|thoughts?|reasoning|discussion|actionpath)\s?:", re.IGNORECASE)
_ACTION = re.compile(r"action\s?(?:[0-9]{1,6})?\s?:\s?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Atom:
    """A step as a line for its action and a line for its observation.

    >>> print(Atom("open box 1", "box 1: key 7").text)
    ACTION open box 1
    OBS box 1: key 7
    """

    action: str
    observation: str

    @property
    def text(self) -> str:
        """Both halves, tagged, so that a scorer can distinguish them."""
        return f"ACTION {self.action}\nOBS {self.observation}"


def atom(step: Step, *, characters: int = SIDE_CHARACTERS) -> Atom:
    r"""Return the step's atom, each half cut to `characters`.

    >>> step = Step(number=3, tokens=9, action="Thought: The key may be there.\nlook in box 1",
    ...     observation='{"box 1": ["key 7",\n "pen 2"]}')
    >>> atom(step)
    Atom(action='look in box 1', observation='box 1=key 7; box 1=pen 2')
    """
    action = _one_line(_calls(step) if step.calls else act(step))
    observation = _one_line(flatten(step.observation[:_READ_CHARACTERS]))
    return Atom(action[:characters], observation[:characters])


def pair_texts(
    query: Query, steps: Sequence[Step], *, characters: int = SIDE_CHARACTERS
) -> list[tuple[str, str]]:
    r"""Return the two texts of a cross-encoder for each step: current observation and atom.

    >>> step = Step(number=1, action="open box 1", observation="key 7", tokens=5)
    >>> pair_texts(Query("find key 7", "box 1 is open"), [step])
    [('box 1 is open', 'ACTION open box 1\nOBS key 7')]
    """
    now = query.observation[:characters]
    return [(now, atom(step, characters=characters).text[:characters]) for step in steps]


def act(step: Step) -> str:
    r"""Return the action without the thought around it.

    For tool calls that is the action itself. For an agent that acts by text it is the code between
    the last fences, or the lines that are not marked as thought.

    >>> act(Step(number=1, action="Let me see.\n```\nls -l\n```", observation="", tokens=1))
    'ls -l'
    """
    said = step.action
    if step.calls or len(said) > _READ_CHARACTERS:
        return said
    if said.count(_FENCE) >= 2:
        return _fenced(said) or said
    lines = said.split("\n")
    if len(lines) == 1 or not any(map(_REASONING.match, lines)):
        return said
    acts = [_ACTION.sub("", line, count=1) for line in lines if not _REASONING.match(line)]
    return "\n".join(acts).strip() or said


def flatten(text: str) -> str:
    """Return JSON as `key=value; key=value` without its brackets, other text as it is.

    >>> flatten('{"flights": [{"number": "HAT136", "seats": {"economy": 4}}], "ok": true}')
    'number=HAT136; economy=4; ok=true'
    """
    if text.lstrip()[:1] not in ("{", "["):
        return text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return "; ".join(_leaves(value))


def _leaves(value: object) -> Iterator[str]:
    """Yield the leaves in order, without recursion: untrusted JSON may be deep."""
    stack: list[tuple[str, object, int]] = [("", value, 0)]
    while stack:
        key, item, depth = stack.pop()
        if isinstance(item, dict) and depth < _MAX_DEPTH:
            stack.extend((str(k), v, depth + 1) for k, v in reversed(item.items()))
        elif isinstance(item, list) and depth < _MAX_DEPTH:
            stack.extend((key, v, depth + 1) for v in reversed(item))
        elif not isinstance(item, dict | list):
            leaf = item if isinstance(item, str) else json.dumps(item)
            yield f"{key}={leaf}" if key else leaf


def _calls(step: Step) -> str:
    return "; ".join(
        f"{call.name} {flatten(call.arguments[:_READ_CHARACTERS])}" for call in step.calls
    )


def _fenced(said: str) -> str:
    """Return the text between the last two fences, without the name of a language."""
    end = said.rfind(_FENCE)
    start = said.rfind(_FENCE, 0, end)
    inside = said[start + len(_FENCE) : end]
    first, newline, rest = inside.partition("\n")
    return (rest if newline and first.strip().isalnum() else inside).strip()


def _one_line(text: str) -> str:
    return " ".join(text.split())
