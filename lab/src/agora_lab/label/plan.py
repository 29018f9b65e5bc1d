"""A plan: what to ask a backbone about each trajectory, each question keyed by its content.

A shard is one trajectory with the pairs of an action and a past step that are labelled. Shards
share nothing, so that any process can work on any of them. A question's key covers everything its
answer can depend on: an answer serves every plan that asks the same question.

The questions of a shard are ordered for a server's prefix cache. The whole prompts come first, the
shorter before the longer. Then, for each past step from the last to the first, come the prompts
without it: each extends the one before by a step.
"""

import hashlib
import json
import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal, Self

from agora import AgoraError
from agora_lab.label.cases import Case, Message

SCHEMA = 2
"""Part of every key: a question asked differently is a different question."""
SETTINGS, SHARDS = "plan.json", "shards.jsonl"
_CHARACTERS_A_TOKEN = 4

Kind = Literal["counterfactual", "likelihood"]
KINDS: tuple[Kind, ...] = ("counterfactual", "likelihood")


class PlanError(AgoraError):
    """A plan that cannot be made or read."""

    def __init__(self, folder: str, problem: str) -> None:
        super().__init__(folder, problem)
        self.folder = folder
        self.problem = problem

    def __str__(self) -> str:
        return f"the plan {self.folder!r} {self.problem}" if self.folder else self.problem


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSettings:
    """Which labels to make, with which backbone, and how much to ask."""

    backbone: str
    """As `agora_lab.agents.backbone` takes it: `openai:MODEL`, `llama:PATH`, `scripted`, ..."""
    revision: str = ""
    """Version of the weights: the SHA-256 of the file, or the vendor's name for it."""
    kind: Kind = "counterfactual"
    samples: int = 8
    """The paper's K: half of them with the whole prompt, half without the step."""
    shared: bool = False
    """Ask the whole prompt once for all pairs of an action, instead of once for each pair."""
    temperature: float = 1.0
    max_tokens: int = 48
    stop: tuple[str, ...] = ()
    seed: int = 0
    k_recent: int = 2
    """How many of the newest steps are never labelled, since they are always kept."""
    anchors: int | None = None
    """Most actions per trajectory, drawn by the seed."""
    candidates: int | None = None
    """Most past steps per action, drawn by the seed."""
    longest: int | None = None
    """Actions with longer prompts, in estimated tokens, are skipped."""

    def __post_init__(self) -> None:
        for name in ("max_tokens", "anchors", "candidates", "longest"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise PlanError("", f"{name} must be at least 1, not {value!r}")
        if self.samples < 2 or self.samples % 2:
            raise PlanError("", f"samples must be even, half for each prompt, not {self.samples}")
        if self.kind not in KINDS:
            raise PlanError("", f"kind must be {' or '.join(KINDS)}, not {self.kind!r}")

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Return the settings in a plan's file."""
        return cls(**{**values, "stop": tuple(values["stop"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One question: a prompt, and the pair whose label needs the answer."""

    key: str
    """The hash of everything the answer can depend on."""
    anchor: int
    """The number of the step whose action is asked for."""
    candidate: int
    """The past step of the pair."""
    whole: bool
    """Whether the prompt still has the candidate."""
    messages: tuple[Message, ...]

    @property
    def seed(self) -> int:
        """A seed of its own, so that the samples of two questions are independent."""
        return int(self.key[:7], 16)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """One trajectory and the pairs to label: each anchor with its candidates."""

    case: Case
    anchors: Mapping[int, tuple[int, ...]]

    @property
    def name(self) -> str:
        """The name of the file of its answers, the same in every plan."""
        return self.case.data[:24]

    @property
    def pairs(self) -> int:
        """How many labels there will be."""
        return sum(len(candidates) for candidates in self.anchors.values())

    def ask(self, anchor: int, candidate: int, *, whole: bool, settings: PlanSettings) -> Ask:
        """Return the question whose answer one side of a pair needs."""
        messages = tuple(self.case.prompt(anchor, 0 if whole else candidate))
        # The paper samples anew for each pair.
        pair = 0 if settings.shared or settings.kind == "likelihood" else candidate
        about = {
            **_about(settings),
            "messages": messages,
            "continuation": self.case.actions[anchor - 1] if settings.kind == "likelihood" else "",
            "pair": pair,
        }
        text = json.dumps(about, separators=(",", ":"), sort_keys=True)
        key = hashlib.sha256(text.encode("ascii")).hexdigest()
        return Ask(key=key, anchor=anchor, candidate=candidate, whole=whole, messages=messages)

    def asks(self, settings: PlanSettings) -> Iterator[Ask]:
        """Return the questions in the order they are asked, none twice."""
        seen: set[str] = set()
        for ask in self._ordered(settings):
            if ask.key not in seen:
                seen.add(ask.key)
                yield ask

    def _ordered(self, settings: PlanSettings) -> Iterator[Ask]:
        for anchor in sorted(self.anchors):
            for candidate in self.anchors[anchor]:
                yield self.ask(anchor, candidate, whole=True, settings=settings)
        for candidate in sorted({one for some in self.anchors.values() for one in some})[::-1]:
            for anchor in sorted(self.anchors):
                if candidate in self.anchors[anchor]:
                    yield self.ask(anchor, candidate, whole=False, settings=settings)

    def to_json(self) -> str:
        """Return the shard as one line of ASCII."""
        anchors = {str(anchor): list(some) for anchor, some in self.anchors.items()}
        return f'{{"anchors":{json.dumps(anchors)},"case":{self.case.to_json()}}}'

    @classmethod
    def from_json(cls, line: str) -> Self:
        """Return the shard in a line."""
        values = json.loads(line)
        anchors = {int(anchor): tuple(some) for anchor, some in values["anchors"].items()}
        return cls(case=Case.from_json(json.dumps(values["case"])), anchors=anchors)


@cache
def _about(settings: PlanSettings) -> dict[str, Any]:
    """Return what besides the prompt an answer depends on."""
    about = {
        "schema": SCHEMA,
        "kind": settings.kind,
        "backbone": settings.backbone,
        "revision": settings.revision,
    }
    if settings.kind == "likelihood":
        return about
    names = ("samples", "temperature", "max_tokens", "stop", "seed")
    return {**about, **{name: getattr(settings, name) for name in names}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What a plan contains, and an estimate of what it takes."""

    trajectories: int
    passed_over: int
    """Trajectories that are too short, too long, or there twice."""
    anchors: int
    pairs: int
    """Labels to make."""
    asks: int
    """Requests to send: two for each pair, less what is shared."""
    prompt_tokens: int
    """Of all prompts, estimated from their characters."""
    new_tokens: int
    """Of those, what a server reads that has the prompt before in its cache."""
    output_tokens: int
    """What is written if every answer is as long as the recorded action."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan in its folder."""

    folder: Path
    settings: PlanSettings
    summary: Summary

    def shards(self) -> Iterator[Shard]:
        """Read the shards one by one."""
        with (self.folder / SHARDS).open(encoding="ascii") as file:
            yield from map(Shard.from_json, file)


def write_plan(folder: Path, cases: Iterable[Case], settings: PlanSettings) -> Plan:
    """Choose the pairs of each case and write the plan.

    Raises:
        PlanError: The folder holds a plan already, or there is nothing to label.
    """
    if (folder / SETTINGS).exists():
        raise PlanError(str(folder), "already exists; name another folder")
    folder.mkdir(parents=True, exist_ok=True)
    counts = dict.fromkeys(Summary.__dataclass_fields__, 0)
    seen: set[str] = set()
    with (folder / SHARDS).open("w", encoding="ascii") as file:
        for case in cases:
            anchors = _anchors(case, settings)
            if not anchors or case.data in seen:
                counts["passed_over"] += 1
                continue
            seen.add(case.data)
            shard = Shard(case=case, anchors=anchors)
            file.write(f"{shard.to_json()}\n")
            _count(counts, shard, settings)
    if not counts["pairs"]:
        (folder / SHARDS).unlink()
        raise PlanError(
            str(folder),
            f"would be empty: of {counts['passed_over']:,} trajectories none has an action with a "
            f"past step before the newest {settings.k_recent}",
        )
    summary = Summary(**counts)
    values = {"schema": SCHEMA, "settings": asdict(settings), "summary": asdict(summary)}
    # Written last: a folder without it holds no plan.
    (folder / SETTINGS).write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
    return Plan(folder, settings, summary)


def read_plan(folder: Path) -> Plan:
    """Return the plan in a folder.

    Raises:
        PlanError: There is none, or it was written by another version.
    """
    try:
        values = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise PlanError(str(folder), f"has no readable {SETTINGS}") from error
    if values.get("schema") != SCHEMA:
        raise PlanError(str(folder), f"is not of schema {SCHEMA}; make it again")
    return Plan(folder, PlanSettings.from_json(values["settings"]), Summary(**values["summary"]))


def _anchors(case: Case, settings: PlanSettings) -> dict[int, tuple[int, ...]]:
    """Return the anchors of a case with their candidates, up to the limits in the settings."""
    anchors: dict[int, tuple[int, ...]] = {}
    for anchor in range(settings.k_recent + 2, len(case.steps) + 1):
        before = case.steps[anchor - 1][0] - 1
        # After words of the agent's own, servers take those for the beginning of the answer.
        if not case.actions[anchor - 1].strip() or case.messages[before]["role"] != "user":
            continue
        if settings.longest is not None and _tokens(case.prompt(anchor)) > settings.longest:
            break
        candidates = case.candidates(anchor, k_recent=settings.k_recent)
        if candidates:
            anchors[anchor] = tuple(candidates)
    chance = random.Random(f"{settings.seed}:{case.data}")
    if settings.anchors is not None and len(anchors) > settings.anchors:
        drawn = sorted(chance.sample(sorted(anchors), settings.anchors))
        anchors = {anchor: anchors[anchor] for anchor in drawn}
    most = settings.candidates
    if most is not None:
        anchors = {
            anchor: tuple(sorted(chance.sample(some, most))) if len(some) > most else some
            for anchor, some in anchors.items()
        }
    return anchors


def _count(counts: dict[str, int], shard: Shard, settings: PlanSettings) -> None:
    counts["trajectories"] += 1
    counts["anchors"] += len(shard.anchors)
    counts["pairs"] += shard.pairs
    answers = settings.samples // 2 if settings.kind == "counterfactual" else 1
    before: tuple[Message, ...] = ()
    for ask in shard.asks(settings):
        tokens = _tokens(ask.messages)
        pairs = zip(before, ask.messages, strict=False)
        common = [one for one, other in takewhile(lambda pair: pair[0] == pair[1], pairs)]
        written = len(shard.case.actions[ask.anchor - 1]) // _CHARACTERS_A_TOKEN + 1
        counts["asks"] += 1
        counts["prompt_tokens"] += tokens
        counts["new_tokens"] += tokens - _tokens(common)
        counts["output_tokens"] += answers * min(written, settings.max_tokens)
        before = ask.messages


def _tokens(messages: Iterable[Message]) -> int:
    return sum(len(message["content"]) // _CHARACTERS_A_TOKEN + 4 for message in messages)
