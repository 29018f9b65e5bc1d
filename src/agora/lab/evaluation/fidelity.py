"""What shortening does to the next action: its likelihood, and what is said at temperature 0.

A trajectory is cut before one of its actions. The backbone is asked with the
whole prompt and with what each method leaves of it: how likely is the action
that was taken, and which action would it take itself. No environment is played,
so the trajectories may be anyone's: recorded, an expert's, a reader's. It is a
proxy: a prompt that keeps the next action may still lose the episode.
"""

import json
import random
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from agora.errors import AgoraError
from agora.lab.backbones import Messages
from agora.lab.backbones.prompts import with_examples
from agora.lab.evaluation.conversations import Conversation
from agora.lab.evaluation.results import FLOOR, NONE
from agora.lab.evaluation.statistics import (
    Estimate,
    holm,
    mean,
    paired,
    wilcoxon,
)
from agora.lab.methods import Method
from agora.lab.methods.steps import tokens_of

LEAST_PAST = 4
"""Before so many steps a floor of two leaves hardly anything to choose."""
MOST_OF_A_TRAJECTORY = 3
RECORDS = "fidelity.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """A place in a conversation: before the action of that number."""

    conversation: Conversation
    step: int

    @property
    def key(self) -> str:
        """What names it."""
        return f"{self.conversation.source}|{self.conversation.id}|{self.step}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a backbone made of one prompt."""

    anchor: str
    source: str
    task: str
    method: str
    tokens_whole: int
    tokens_sent: int
    changed: bool
    logprob: float = 0.0
    """Of the action that was taken, the sum over its tokens."""
    action_tokens: int = 0
    greedy: str = ""
    """What it says itself at temperature 0, in the environment's one form."""
    taken: str = ""
    """What was done, in the same form."""
    error: str = ""

    @property
    def key(self) -> str:
        """What names it."""
        return f"{self.anchor}|{self.method}"


class Likelihoods(Protocol):
    """A backbone that can be asked how likely an answer is, and for its own."""

    async def score(self, messages: Messages, continuation: str) -> Sequence[Any]:
        """Return how likely each token of a continuation is."""
        ...

    async def chat(self, messages: Messages) -> Any:
        """Return what it says."""
        ...


@dataclass(frozen=True, slots=True)
class Grammar:
    """How the actions of a world are found in an answer and compared, and its examples."""

    extract: Callable[[str], str]
    canonical: Callable[[str], str]
    examples: str = ""


def first_line(text: str) -> str:
    r"""Return the first line with anything on it, its spaces made plain.

    >>> first_line("\n  look  at it \nmore")
    'look at it'
    """
    return next((" ".join(line.split()) for line in text.splitlines() if line.strip()), "")


ANY = Grammar(first_line, first_line)
"""For logs of agents whose grammar is not known."""


def draw(conversations: Iterable[Conversation], count: int, *, seed: int = 0) -> list[Anchor]:
    """Return anchors by lot, at most so many and of one trajectory no more than a few.

    >>> draw([], 5)
    []
    """
    chance = random.Random(seed)
    places: list[Anchor] = []
    for conversation in conversations:
        steps = range(LEAST_PAST + 1, conversation.steps + 1)
        some = chance.sample(steps, min(MOST_OF_A_TRAJECTORY, len(steps)))
        places += [Anchor(conversation=conversation, step=step) for step in sorted(some)]
    chosen = chance.sample(places, min(count, len(places)))
    return sorted(chosen, key=lambda anchor: anchor.key)


async def measure(
    anchors: Sequence[Anchor],
    methods: Mapping[str, Method],
    backbone: Likelihoods,
    *,
    grammars: Mapping[str, Grammar],
    done: frozenset[str] = frozenset(),
) -> AsyncIterator[Measured]:
    """Yield what the backbone makes of each anchor under each method, the whole prompt first.

    An anchor that the backbone cannot be asked about (longer than its context)
    is put down with the error for that method and stays out of what is paired.
    """
    for anchor in anchors:
        conversation = anchor.conversation
        grammar = grammars.get(conversation.world, ANY)
        whole = conversation.before(anchor.step)
        for name, method in methods.items():
            measured = Measured(
                anchor=anchor.key,
                source=conversation.source,
                task=conversation.task,
                method=name,
                tokens_whole=tokens_of(whole),
                tokens_sent=0,
                changed=False,
            )
            if measured.key in done:
                continue
            yield await _measured(anchor, measured, method, backbone, grammar, whole)


async def _measured(
    anchor: Anchor,
    blank: Measured,
    method: Method,
    backbone: Likelihoods,
    grammar: Grammar,
    whole: Messages,
) -> Measured:
    values = asdict(blank)
    try:
        sent = method.shorten(whole).messages
        values |= {"tokens_sent": tokens_of(sent), "changed": list(sent) != list(whole)}
        asked = with_examples(sent, grammar.examples) if grammar.examples else sent
        taken = anchor.conversation.action(anchor.step)
        scores = await backbone.score(asked, taken)
        # Right after: the server still has the prompt.
        reply = await backbone.chat(asked)
    except AgoraError as error:
        return Measured(**{**values, "error": str(error)[:300]})
    said = grammar.extract(reply.choices[0].text)
    return Measured(
        **{
            **values,
            "logprob": round(sum(score.logprob for score in scores), 6),
            "action_tokens": len(scores),
            "greedy": grammar.canonical(said),
            "taken": grammar.canonical(grammar.extract(taken)),
        }
    )


class Records:
    """What was measured so far, one line each; going on asks only what is missing."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = folder / RECORDS
        self.found: list[Measured] = list(read_measured(folder))

    @property
    def done(self) -> frozenset[str]:
        """The keys of what is there. What failed is tried again."""
        return frozenset(one.key for one in self.found if not one.error)

    def add(self, measured: Measured) -> None:
        """Write one down."""
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(measured), sort_keys=True) + "\n")
        self.found.append(measured)


def read_measured(folder: Path) -> list[Measured]:
    """Return what was measured, the last word on each; half a line at the end is passed over."""
    found: dict[str, Measured] = {}
    file = folder / RECORDS
    if file.exists():
        for line in file.read_bytes().splitlines(keepends=True):
            if line.endswith(b"\n"):
                one = Measured(**json.loads(line))
                found[one.key] = one
    return list(found.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Fidelity:
    """What a method leaves of the next action, over the anchors of one source."""

    source: str
    method: str
    anchors: int
    changed: int
    """At how many of them the method changed the prompt."""
    compression: Estimate
    """Mean over tasks of whole / sent."""
    logprob_lost: Estimate
    """Mean over tasks of the log-probability of the action taken, whole prompt minus this one."""
    agreement: Estimate
    """How often it says the same as with the whole prompt."""
    agreement_taken: Estimate
    """How often it says what was done."""
    against_floor: Estimate | None
    """Log-probability minus that under the floor; above 0 is better than the floor."""
    p_floor: float = 1.0
    p_holm: float = 1.0


def summarise(measured: Iterable[Measured]) -> list[Fidelity]:
    """Return the figures per source and method, by task, over anchors that all methods have."""
    by_source: dict[str, dict[str, dict[str, Measured]]] = {}
    for one in measured:
        if not one.error:
            methods = by_source.setdefault(one.source, {})
            methods.setdefault(one.method, {})[one.anchor] = one
    rows: list[Fidelity] = []
    for source, methods in sorted(by_source.items()):
        if NONE not in methods:
            continue
        common = set.intersection(*(set(own) for own in methods.values()))
        if common:
            rows += [_row(source, name, methods, sorted(common)) for name in methods]
    tested = [at for at, row in enumerate(rows) if row.against_floor is not None]
    corrected = holm([rows[at].p_floor for at in tested])
    for at, p in zip(tested, corrected, strict=True):
        values = {name: getattr(rows[at], name) for name in Fidelity.__slots__}
        rows[at] = Fidelity(**{**values, "p_holm": p})
    return rows


def _row(
    source: str,
    name: str,
    methods: Mapping[str, Mapping[str, Measured]],
    anchors: Sequence[str],
) -> Fidelity:
    own, whole = methods[name], methods[NONE]

    def by_task(value: Callable[[str], float]) -> dict[str, float]:
        found: dict[str, list[float]] = {}
        for anchor in anchors:
            found.setdefault(own[anchor].task, []).append(value(anchor))
        return {task: sum(values) / len(values) for task, values in found.items()}

    def estimate(value: Callable[[str], float]) -> Estimate:
        return mean([one for _, one in sorted(by_task(value).items())]).estimate

    against = None
    p = 1.0
    floor = methods.get(FLOOR)
    if floor is not None and name not in (NONE, FLOOR):
        ours, theirs = paired(
            by_task(lambda anchor: own[anchor].logprob),
            by_task(lambda anchor: floor[anchor].logprob),
        )
        against = mean([a - b for a, b in zip(ours, theirs, strict=True)]).estimate
        p = wilcoxon(ours, theirs)
    return Fidelity(
        source=source,
        method=name,
        anchors=len(anchors),
        changed=sum(own[anchor].changed for anchor in anchors),
        compression=estimate(lambda a: own[a].tokens_whole / max(1, own[a].tokens_sent)),
        logprob_lost=estimate(lambda a: whole[a].logprob - own[a].logprob),
        agreement=estimate(lambda a: float(own[a].greedy == whole[a].greedy)),
        agreement_taken=estimate(lambda a: float(own[a].greedy == own[a].taken)),
        against_floor=against,
        p_floor=p,
    )
