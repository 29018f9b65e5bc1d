"""Labels of parts from a log alone: what actions up to the next edit take from an old part.

An edit stays as it is until the next one, ten to thirty calls later. So the question is not what
the next action needs but what any action until then does. How long an edit lasts is not known when
it is made; taken as ending after each call with the same chance, the label of a part whose first
use comes after `n` calls is the chance that the edit lasts as long.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Literal, NamedTuple

from agora.core.floor import floor
from agora.core.reading.names import identifiers
from agora.core.recall import recalled
from agora.core.trajectory import Step, Trajectory
from agora.scorers.atoms import act, flatten
from agora_lab.label.hindsight import K_RECENT, stands_in

PartName = Literal["action", "observation"]
PARTS: tuple[PartName, ...] = ("action", "observation")

_COPIED = 8
"""A run of so many tokens is copied and not written anew by chance."""
_WORDS_COPIED = 4
"""So many of them have to be words: rulers and brackets are no copies."""
_TOKEN = re.compile(r"\w+|[^\w\s]")
_WORD = re.compile(r"\w+")
_LOOKING = frozenset(
    """
    awk cat cut diff egrep fgrep find get git grep head less list look ls more nl open read rg
    search sed show tail tree view wc
    """.split()
)
_CHANGING = re.compile(r"\s-i\b|>{1,2}\s*[\w./~-]|<<|\btee\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorthSettings:
    """What counts as a use, and how long an edit lasts."""

    calls: int = 30
    """How many actions after the edit are looked at."""
    lasts: float = 0.95
    """The chance that an edit lasts for one call more."""
    again: float = 0.5
    """What asking again counts, compared with using a name or copying: agents that see everything
    ask again too, for what has changed since."""
    k_recent: int = K_RECENT
    anchors: int | None = None
    """Most edits per trajectory, spread evenly; all that are possible if none is given."""


@dataclass(frozen=True, slots=True)
class Needed:
    """How likely each part of a step is needed before the next edit."""

    epoch: int
    """After how many steps the edit is made."""
    candidate: int
    """The number of the step."""
    action: float
    observation: float
    named: float
    """The share of the observation's label that comes from names alone: what is copied from it or
    asked for again, a list of its names does not spare."""


class Use(NamedTuple):
    """Something that one action takes from the past, and which parts have it."""

    step: int
    """The number of the step whose action uses it."""
    key: str | int
    """The name, the hash of the copied tokens, or what is asked for again."""
    kind: Literal["name", "copy", "again"]
    holders: tuple[tuple[int, PartName], ...]
    """Every part before that step that has it, oldest first."""


def label_parts(trajectory: Trajectory, settings: WorthSettings | None = None) -> Iterator[Needed]:
    """Return for each edit and each step outside its floor how likely its parts are needed.

    >>> steps = tuple(Step(number=n, action=f"open box {n}", observation=o, tokens=9)
    ...     for n, o in enumerate(["key 7", "pen 2", "", "", ""], start=1))
    >>> last = Step(number=6, action="take key 7", observation="", tokens=1)
    >>> past = Trajectory(task="", preamble="", preamble_tokens=0, steps=(*steps, last))
    >>> [(one.epoch, one.candidate, round(one.observation, 2))
    ...     for one in label_parts(past) if one.observation]
    [(3, 1, 0.9), (4, 1, 0.95), (5, 1, 1.0)]
    """
    settings = settings or WorthSettings()
    found = uses(trajectory)
    by_name = labels_of(trajectory, [use for use in found if use.kind == "name"], settings)
    others = labels_of(trajectory, [use for use in found if use.kind != "name"], settings)
    for epoch in epochs(trajectory, settings):
        names, rest = by_name.get(epoch, {}), others.get(epoch, {})
        for number in candidates(trajectory, epoch, k_recent=settings.k_recent):
            action, observation = (number, PARTS[0]), (number, PARTS[1])
            named, copied = names.get(observation, 0.0), rest.get(observation, 0.0)
            yield Needed(
                epoch,
                number,
                action=max(names.get(action, 0.0), rest.get(action, 0.0)),
                observation=max(named, copied),
                named=named / (named + copied) if named else 0.0,
            )


def candidates(trajectory: Trajectory, epoch: int, *, k_recent: int = K_RECENT) -> list[int]:
    """Return the numbers of the steps that an edit after `epoch` steps may shorten."""
    past = trajectory.steps[:epoch]
    held = floor(past, k_recent=k_recent, recalled=recalled(past))
    return [step.number for step in past if step.number not in held]


def epochs(trajectory: Trajectory, settings: WorthSettings) -> Sequence[int]:
    """Return after how many steps edits are labelled: from the first that has a candidate.

    With a limit they are spread evenly, from a place that depends on the task.
    """
    every = range(settings.k_recent + 1, len(trajectory.steps))
    most = settings.anchors
    if most is None or len(every) <= most:
        return every
    apart = len(every) / most
    digest = sha256(trajectory.task.encode("utf-8", "surrogatepass")).digest()
    offset = apart * digest[0] / 256
    return sorted({every[min(int(offset + apart * n), len(every) - 1)] for n in range(most)})


def labels_of(
    trajectory: Trajectory, found: Sequence[Use], settings: WorthSettings
) -> Mapping[int, Mapping[tuple[int, PartName], float]]:
    """Return the labels above 0 that these uses give, by epoch and part."""
    fixed = {step.number for step in trajectory.steps if step.fixed}
    labels: dict[int, dict[tuple[int, PartName], float]] = defaultdict(dict)
    for use in found:
        if len(use.holders) > 1:
            # Any of them would do, so none is needed.
            continue
        part = use.holders[0]
        if part[0] in fixed:
            continue
        weight = settings.again if use.kind == "again" else 1.0
        # Before the first of these epochs the part is in the floor, or not there yet.
        first = max(part[0] + settings.k_recent, use.step - settings.calls)
        for epoch in range(first, use.step):
            label = weight * settings.lasts ** (use.step - epoch - 1)
            here = labels[epoch]
            here[part] = max(label, here.get(part, 0.0))
    return labels


def uses(trajectory: Trajectory) -> list[Use]:
    """Return what the actions take from earlier steps and have nowhere else.

    Nowhere else: not in the preamble, and not in what was said before the action. Names are
    matched as whole words, copies as runs of eight tokens.
    """
    found = [*_names_used(trajectory), *_copied(trajectory), *_asked_again(trajectory)]
    return [use for use in found if use.holders]


def done(step: Step) -> str:
    """Return what a step did, without what was thought along with it."""
    return "\n".join(call.arguments for call in step.calls) or act(step)


def _texts(step: Step) -> tuple[tuple[PartName, str], ...]:
    return ("action", f"{step.thought}\n{step.action}"), ("observation", step.observation)


def _names_used(trajectory: Trajectory) -> Iterator[Use]:
    parts = [
        (step.number, part, text, frozenset(_WORD.findall(text)))
        for step in trajectory.steps
        for part, text in _texts(step)
    ]
    said = [(0, trajectory.preamble), *((u.after, u.text) for u in trajectory.utterances)]
    holding: dict[str, list[tuple[int, PartName]]] = {}
    first_said: dict[str, int] = {}
    for step in trajectory.steps:
        for name in identifiers(done(step)):
            if name not in holding:
                words = frozenset(_WORD.findall(name))
                holding[name] = [
                    (number, part)
                    for number, part, text, known in parts
                    if words <= known and stands_in(name, text)
                ]
                first_said[name] = next(
                    (after for after, text in said if stands_in(name, text)), len(parts)
                )
            if first_said[name] >= step.number:
                holders = tuple(part for part in holding[name] if part[0] < step.number)
                yield Use(step.number, name, "name", holders)


def _copied(trajectory: Trajectory) -> Iterator[Use]:
    acts = {step.number: _runs(_plain(step)) for step in trajectory.steps}
    wanted = {run for runs in acts.values() for run in runs}
    if not wanted:
        return
    said = _said(trajectory, wanted)
    holding: dict[int, list[tuple[int, PartName]]] = defaultdict(list)
    for step in trajectory.steps:
        for run in acts[step.number]:
            if said.get(run, step.number) >= step.number and holding[run]:
                yield Use(step.number, run, "copy", tuple(holding[run]))
        parts: tuple[tuple[PartName, str], ...] = (
            ("action", f"{step.thought}\n{_plain(step) if step.calls else step.action}"),
            ("observation", step.observation),
        )
        for part, text in parts:
            for run in _runs(text) & wanted:
                holding[run].append((step.number, part))


def _said(trajectory: Trajectory, wanted: Collection[int]) -> Mapping[int, int]:
    """Return for each run that was said after how many steps it first was."""
    first: dict[int, int] = {}
    said = [(0, trajectory.preamble), *((u.after, u.text) for u in trajectory.utterances)]
    for after, text in said:
        for run in _runs(text) & set(wanted):
            first.setdefault(run, after)
    return first


def _plain(step: Step) -> str:
    """Return what was done as plain text: arguments in JSON have their line breaks escaped."""
    return "\n".join(flatten(call.arguments) for call in step.calls) or act(step)


def _runs(text: str) -> set[int]:
    """Return the hashes of all runs of eight tokens that have enough words in them."""
    tokens = _TOKEN.findall(text)
    words = [len(token) > 1 and (token[0].isalnum() or token[0] == "_") for token in tokens]
    runs: set[int] = set()
    inside = sum(words[: _COPIED - 1])
    for start in range(len(tokens) - _COPIED + 1):
        end = start + _COPIED
        inside += words[end - 1]
        if inside >= _WORDS_COPIED:
            runs.add(hash(tuple(tokens[start:end])))
        inside -= words[start]
    return runs


def _asked_again(trajectory: Trajectory) -> Iterator[Use]:
    """Yield the observations that are asked for again: by the same call, or of the same file."""
    asked: dict[str, int] = {}
    looked: dict[str, int] = {}
    for step in trajectory.steps:
        command = " ".join(done(step).split())
        names = " ".join(call.name for call in step.calls)
        call = f"{names} {command}"
        paths = [name for name in identifiers(command) if _is_file(name)]
        before = {asked[call]} if call in asked else set()
        before |= {looked[path] for path in paths if path in looked}
        for number in sorted(before):
            yield Use(step.number, call, "again", ((number, "observation"),))
        if command:
            asked[call] = step.number
        if _looks(names, command):
            looked.update(dict.fromkeys(paths, step.number))


def _is_file(name: str) -> bool:
    return "/" in name or ("." in name and name.rpartition(".")[2].isalpha())


def _looks(names: str, command: str) -> bool:
    """Tell whether an action reads: by the words in its tool's name, or by its command."""
    words = set(_WORD.findall(names.replace("_", " ").lower()))
    if words:
        return not words.isdisjoint(_LOOKING)
    last = command.rpartition("&& ")[2].split(" ", 1)[0]
    return last.lower() in _LOOKING and not _CHANGING.search(command)
