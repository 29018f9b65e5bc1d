"""Probes: questions about the past, asked of the judge under each prompt of a run.

The primary measure is which of five answers is likeliest, the known one or four other
values of the same field: every prompt gets a verdict from one pass over the weights,
and a model that words its answer oddly is not called wrong for it. A part of the
probes is answered in the model's own words too, to see whether both say the same.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from agora_lab.fidelity.judged import PROBES, prompts_of, read_prompts, read_run
from agora_lab.fidelity.questions import Fact, Question, ask, facts, normal, pools
from agora_lab.fidelity.records import DrawnAnchor
from agora_lab.journal import Journal, read_lines

METHODS = ("everything", "floor", "newest@0.25", "forms_now@0.25", "default@0.25")
INSTRUCTION = "Answer with the value only, in one or two words."
_SPEECH = 24
"""Tokens of an answer in the model's own words: paths are long."""


_BLOCK = 4
"""How many anchors of a source are asked about one after the other."""


class Answers(Protocol):
    """A language model that chooses among answers and gives its own."""

    def choose(self, prompt: Sequence[int], choices: Sequence[Sequence[int]]) -> list[float]:
        """Return the nats of each choice as the whole answer."""
        ...

    def answer(self, prompt: Sequence[int], *, max_tokens: int, ends: frozenset[int]) -> list[int]:
        """Return the tokens of its own answer."""
        ...


class Writes(Protocol):
    """Writes chats as the model's template does, and as tokens."""

    def prompt(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Any] = ()) -> str:
        """Return the text up to where the assistant begins to speak."""
        ...

    def token_ids(self, text: str) -> list[int]:
        """Return the tokens of a text."""
        ...

    @property
    def tokenizer(self) -> Any:
        """What turns tokens back into text with `decode`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """One question under one prompt, as a line of the run folder."""

    probe: str
    anchor: str
    source: str
    kind: str
    task: str
    half: str
    template: str
    question: str
    answer: str
    choices: tuple[str, ...]
    from_log: int
    method: str
    keep: float | None
    nats: tuple[float, ...]
    correct: bool
    said: str | None
    exact: bool | None


@dataclass(frozen=True, slots=True)
class Planned:
    """A question at an anchor, and the file with the anchor's prompts."""

    key: str
    anchor: DrawnAnchor
    question: Question
    file: Path
    worded: bool
    """Whether the model also answers in its own words."""


def plan(folder: Path, *, half: str, probes: int, each: int, worded: int) -> list[Planned]:
    """Return the probes to ask, a few anchors of each source in turn.

    So a stop leaves some of each, and tools and instructions that several have are read once.

    Only anchors that passed and whose prompts were kept; at most `each` of an anchor.
    """
    run = read_run(folder, half)
    files = {
        key: file
        for key, file in read_prompts(folder).items()
        if key in run.anchors and run.anchors[key].passed
    }
    known = {key: list(facts(prompts_of(file)["whole"])) for key, file in files.items()}
    by_source: dict[str, list[list[Planned]]] = {}
    for key, file in files.items():
        anchor = run.anchors[key]
        own = _asked(anchor, file, known, each)
        by_source.setdefault(anchor.source, []).append(
            [Planned(f"{key}|{place}", anchor, one, file, False) for place, one in enumerate(own)]
        )
    found: list[Planned] = []
    for place in range(0, max((len(own) for own in by_source.values()), default=0), _BLOCK):
        for anchors in by_source.values():
            for asked in anchors[place : place + _BLOCK]:
                found += asked
    step = max(1, -(-min(probes, len(found)) // max(1, worded))) if worded else 0
    return [
        Planned(one.key, one.anchor, one.question, one.file, bool(step) and place % step == 0)
        for place, one in enumerate(found[:probes])
    ]


def _asked(
    anchor: DrawnAnchor, file: Path, known: Mapping[str, Sequence[Fact]], each: int
) -> list[Question]:
    floor_text = json.dumps(prompts_of(file)["sent"]["floor"], ensure_ascii=False)
    pool = pools(
        fact
        for key, own in known.items()
        if key.partition("|")[0] == anchor.anchor.partition("|")[0]
        for fact in own
    )
    return ask(known[anchor.anchor], floor_text, pool, most=each, seed=anchor.anchor)


def run(
    folder: Path,
    planned: Sequence[Planned],
    answers: Answers,
    writes: Writes,
    *,
    methods: Sequence[str] = METHODS,
    ends: frozenset[int],
    enough: Callable[[], bool] = lambda: False,
) -> Iterator[Probed]:
    """Ask what is missing and yield each answer once it is written down.

    All questions of an anchor under one prompt come together: the prompt is read once.
    It stops between prompts as soon as `enough` says so; started again, it goes on.

    Raises:
        BusyError: another process is asking the probes of this folder.
    """
    journal = Journal(folder / PROBES)
    try:
        done = _done(folder / PROBES)
        for own in _by_anchor(planned):
            prompts = prompts_of(own[0].file)
            sent = {**prompts["sent"], "everything": prompts["whole"]}
            for name in methods:
                left = [one for one in own if (one.key, name) not in done]
                if not left or name not in sent:
                    continue
                if enough():
                    return
                for one in left:
                    tools = prompts.get("tools") or ()
                    probed = _probe(one, name, sent[name], tools, answers, writes, ends)
                    journal.add(json.dumps(asdict(probed), ensure_ascii=False).encode())
                    yield probed
    finally:
        journal.close()


def _probe(
    one: Planned,
    name: str,
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Any],
    answers: Answers,
    writes: Writes,
    ends: frozenset[int],
) -> Probed:
    question, anchor = one.question, one.anchor
    asked = {"role": "user", "content": f"{question.question} {INSTRUCTION}"}
    prompt = writes.token_ids(writes.prompt([*messages, asked], tools))
    end = sorted(ends)[:1]
    # With its end, so that `1` is not the likelier for being how `113` begins.
    nats = answers.choose(prompt, [[*writes.token_ids(c), *end] for c in question.choices])
    best = question.choices[min(range(len(nats)), key=nats.__getitem__)]
    said = None
    if one.worded:
        token_ids = answers.answer(prompt, max_tokens=_SPEECH, ends=ends)
        said = str(writes.tokenizer.decode(token_ids, skip_special_tokens=True)).strip()
    method, _, keep = name.partition("@")
    return Probed(
        probe=one.key,
        anchor=anchor.anchor,
        source=anchor.source,
        kind=anchor.kind,
        task=anchor.task,
        half=anchor.half,
        template=question.template,
        question=question.question,
        answer=question.answer,
        choices=question.choices,
        from_log=question.from_log,
        method=method,
        keep=float(keep) if keep else None,
        nats=tuple(round(value, 4) for value in nats),
        correct=best == question.answer,
        said=said,
        exact=None if said is None else normal(said) == normal(question.answer),
    )


def _by_anchor(planned: Sequence[Planned]) -> Iterator[list[Planned]]:
    groups: dict[str, list[Planned]] = {}
    for one in planned:
        groups.setdefault(one.anchor.anchor, []).append(one)
    yield from groups.values()


def _done(file: Path) -> set[tuple[str, str]]:
    found = set()
    for line in read_lines(file):
        one = json.loads(line)
        keep = one["keep"]
        found.add((one["probe"], one["method"] if keep is None else f"{one['method']}@{keep:g}"))
    return found
