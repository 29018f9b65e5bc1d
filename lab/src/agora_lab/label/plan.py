"""A plan: the questions to a backbone about each trajectory, each keyed by its content.

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
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import takewhile
from pathlib import Path

from agora_lab.errors import ProblemError
from agora_lab.label.cases import Case, Message

SCHEMA = 3
"""Part of every key: a question asked differently is a different question."""
SETTINGS, SHARDS = "plan.json", "shards.jsonl"
_CHARACTERS_A_TOKEN = 4
_LIMITS = ("pairs", "longest")
"""Settings that choose questions and change no answer."""


class PlanError(ProblemError):
    """A plan that cannot be made or read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSettings:
    """The settings of a plan of counterfactual labels."""

    backbone: str
    """As `agora_lab.agents.backbone` takes it: `openai:MODEL`, `llama:PATH`, `scripted`, ..."""
    revision: str = ""
    """Version of the weights: the SHA-256 of the file, or the vendor's name for it."""
    samples: int = 8
    """The paper's K: half of them with the whole prompt, half without the step."""
    temperature: float = 1.0
    max_tokens: int = 48
    stop: tuple[str, ...] = ()
    seed: int = 0
    pairs: int | None = None
    """Most pairs of a trajectory, drawn by the seed."""
    longest: int | None = None
    """Actions with longer prompts, in estimated tokens, are skipped."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "stop", tuple(self.stop))
        for name in ("max_tokens", *_LIMITS):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise PlanError(name, f"must be at least 1, not {value!r}")
        if self.samples < 2 or self.samples % 2:
            raise PlanError("samples", f"must be even, half for each prompt, not {self.samples}")


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
    """True if the prompt still has the candidate."""
    messages: tuple[Message, ...]

    @property
    def seed(self) -> int:
        """A seed of its own, so that the samples of two questions are independent."""
        return int(self.key[:7], 16)


@dataclass(frozen=True, slots=True)
class Shard:
    """One trajectory and the pairs to label: step of the action, past step."""

    case: Case
    pairs: tuple[tuple[int, int], ...]

    def ask(self, anchor: int, candidate: int, *, whole: bool, settings: PlanSettings) -> Ask:
        """Return the question whose answer one side of a pair needs.

        As in the paper, each pair has samples of its own of the whole prompt too.
        """
        messages = tuple(self.case.prompt(anchor, 0 if whole else candidate))
        about = {n: v for n, v in asdict(settings).items() if n not in _LIMITS}
        about |= {"schema": SCHEMA, "messages": messages, "pair": candidate}
        text = json.dumps(about, separators=(",", ":"), sort_keys=True)
        key = hashlib.sha256(text.encode("ascii")).hexdigest()
        return Ask(key=key, anchor=anchor, candidate=candidate, whole=whole, messages=messages)

    def asks(self, settings: PlanSettings) -> Iterator[Ask]:
        """Return the questions in the order they are asked, none twice."""
        sides = [(pair, True) for pair in sorted(self.pairs)]
        sides += [(pair, False) for pair in sorted(self.pairs, key=lambda pair: (-pair[1], pair))]
        seen: set[str] = set()
        for pair, whole in sides:
            ask = self.ask(*pair, whole=whole, settings=settings)
            if ask.key not in seen:
                seen.add(ask.key)
                yield ask

    def to_json(self) -> str:
        """Return the shard as one line of ASCII."""
        return f'{{"pairs":{json.dumps(self.pairs)},"case":{self.case.to_json()}}}'

    @classmethod
    def from_json(cls, line: str) -> "Shard":
        """Return the shard in a line."""
        values = json.loads(line)
        case = Case.from_json(json.dumps(values["case"]))
        return cls(case, tuple(map(tuple, values["pairs"])))


@dataclass(slots=True, kw_only=True)
class Summary:
    """The size of a plan, and an estimate of its tokens."""

    trajectories: int = 0
    passed_over: int = 0
    """Trajectories that are too short, too long, or there twice."""
    pairs: int = 0
    """Labels to make."""
    asks: int = 0
    """Requests to send: two for each pair."""
    prompt_tokens: int = 0
    """Of all prompts, estimated from their characters."""
    new_tokens: int = 0
    """Of those, the tokens that a server with the prompt before in its cache reads."""
    output_tokens: int = 0
    """Tokens to write if every answer is as long as the recorded action."""

    def add(self, shard: Shard, settings: PlanSettings) -> None:
        """Count a shard."""
        self.trajectories += 1
        self.pairs += len(shard.pairs)
        before: tuple[Message, ...] = ()
        for ask in shard.asks(settings):
            sides = zip(before, ask.messages, strict=False)
            common = [one for one, other in takewhile(lambda pair: pair[0] == pair[1], sides)]
            tokens = _tokens(ask.messages)
            action = len(shard.case.steps[ask.anchor - 1][0]) // _CHARACTERS_A_TOKEN + 1
            self.asks += 1
            self.prompt_tokens += tokens
            self.new_tokens += tokens - _tokens(common)
            self.output_tokens += settings.samples // 2 * min(action, settings.max_tokens)
            before = ask.messages


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan and its folder."""

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
        raise PlanError(f"the plan {str(folder)!r}", "already exists; name another folder")
    folder.mkdir(parents=True, exist_ok=True)
    summary = Summary()
    seen: set[str] = set()
    with (folder / SHARDS).open("w", encoding="ascii") as file:
        for case in cases:
            shard = Shard(case, chosen_pairs(case, settings))
            if not shard.pairs or case.name in seen:
                summary.passed_over += 1
                continue
            seen.add(case.name)
            file.write(f"{shard.to_json()}\n")
            summary.add(shard, settings)
    if not summary.pairs:
        (folder / SHARDS).unlink()
        raise PlanError(
            f"the plan {str(folder)!r}",
            f"would be empty: of {summary.passed_over:,} trajectories none has an action with a "
            "past step before the newest two",
        )
    values = {"schema": SCHEMA, "settings": asdict(settings), "summary": asdict(summary)}
    # Written last: a folder without it holds no plan.
    (folder / SETTINGS).write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
    return Plan(folder, settings, summary)


def read_plan(folder: Path) -> Plan:
    """Return the plan in a folder.

    Raises:
        PlanError: The folder holds no plan of this version.
    """
    try:
        values = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise PlanError(f"the plan {str(folder)!r}", f"has no readable {SETTINGS}") from error
    if values.get("schema") != SCHEMA:
        raise PlanError(f"the plan {str(folder)!r}", f"is not of schema {SCHEMA}; make it again")
    return Plan(folder, PlanSettings(**values["settings"]), Summary(**values["summary"]))


def chosen_pairs(case: Case, settings: PlanSettings) -> tuple[tuple[int, int], ...]:
    """Return the pairs of a case that are labelled, up to the limits in the settings."""
    pairs: list[tuple[int, int]] = []
    for anchor, (start, _) in enumerate(case.spans, start=1):
        # After words of the agent's own, servers take those for the beginning of the answer.
        if not case.steps[anchor - 1][0].strip() or case.messages[start - 1]["role"] != "user":
            continue
        if settings.longest is not None and _tokens(case.prompt(anchor)) > settings.longest:
            break
        pairs += [(anchor, candidate) for candidate in case.candidates(anchor)]
    if settings.pairs is not None and len(pairs) > settings.pairs:
        pairs = random.Random(f"{settings.seed} {case.task}").sample(pairs, settings.pairs)
    return tuple(sorted(pairs))


def _tokens(messages: Iterable[Message]) -> int:
    return sum(len(message["content"]) // _CHARACTERS_A_TOKEN + 4 for message in messages)
