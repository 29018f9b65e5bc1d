"""A shard's answers: one Ray task asks a backbone and appends each answer to a file of its own.

A line of the file is a paid answer, written the moment it came. A task that runs again reads the
file first and asks only the missing questions, so a kill costs the open requests alone. Two
processes never work on one shard: the file is locked.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import BinaryIO

from agora_lab.agents import Backbone, BackboneError, backbone
from agora_lab.agents.client import ModelClient, Sampling
from agora_lab.agents.purse import Prices, Purse, PurseEmptyError
from agora_lab.jsonl import append, open_lines, read_lines
from agora_lab.label.plan import Ask, PlanSettings, Shard

_LOCK_S = 120.0
"""How long a task waits for the process that had its shard before, which may be dying."""
_REFUSED = ("status 400", "status 413", "status 422")
"""Refusals of one prompt, such as one too long; any other failure may concern all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """The address of the backbone and its limits. Answers do not depend on them."""

    base_url: str | None = None
    api_key: str = field(default="", repr=False)
    """It travels with the tasks and is written nowhere."""
    concurrency: int = 8
    """Requests in flight per shard."""
    max_dollars: float | None = None
    prices: Prices | None = None
    timeout_s: float = 120.0
    max_retries: int = 4
    failures_in_a_row: int = 10
    """The number of failures after which the backbone counts as gone."""


@dataclass(frozen=True, slots=True)
class Work:
    """A task: a shard to answer, and how."""

    shard: Shard
    settings: PlanSettings
    folder: Path
    """Where the files of answers are. Every node of a cluster must see it."""
    connection: Connection


@dataclass(slots=True)
class Done:
    """The result of a task."""

    answered: int = 0
    failures: list[str] = field(default_factory=list)
    """The reason of each question that got no answer."""
    stop: str = ""
    """Why no shard can continue: the purse is empty, or the backbone is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """An answered question."""

    key: str
    anchor: int
    candidate: int
    whole: bool
    """True if the prompt still had the candidate."""
    texts: tuple[str, ...] = ()
    """The samples, verbatim."""
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    attempts: int = 1


def answers_file(folder: Path, shard: Shard) -> Path:
    """Return the file of a shard's answers."""
    return folder / f"{shard.case.name}.jsonl"


def read_answers(file: Path) -> dict[str, Answered]:
    """Return the answers in a file by key; a truncated line does not count."""
    answers: dict[str, Answered] = {}
    for values in read_lines(file):
        values["texts"] = tuple(values["texts"])
        answers.setdefault(values["key"], Answered(**values))
    return answers


def answer_shard(work: Work) -> Done:
    """Ask every question of a shard that has no answer yet.

    Raises:
        FileNotFoundError: This machine does not see the folder of answers.
        BackboneError: There is no such backbone here.
        BusyError: Another process keeps working on the shard.
    """
    if not work.folder.is_dir():
        raise FileNotFoundError(
            f"{work.folder} is not on this machine; all nodes of a cluster must share it"
        )
    with open_lines(answers_file(work.folder, work.shard), wait_s=_LOCK_S) as file:
        present = read_answers(Path(file.name)).keys()
        missing = [one for one in work.shard.asks(work.settings) if one.key not in present]
        if not missing:
            return Done()
        asked = _backbone(work.settings, work.connection, work.shard.case.world, _purse_file(work))
        return _loop().run_until_complete(_Asking(work, asked, file).run(missing))


class _Asking:
    """The questions of one shard, under way."""

    def __init__(self, work: Work, asked: Backbone, file: BinaryIO) -> None:
        self._work = work
        self._backbone = asked
        self._file = file
        self._done = Done()
        self._failures_in_a_row = 0

    async def run(self, asks: list[Ask]) -> Done:
        waiting = iter(asks)
        # A server that is started here has slots for the samples of one question.
        own = self._work.settings.backbone.startswith("llama:")
        takers = 1 if own else self._work.connection.concurrency
        # Each takes the next question, so that the questions keep the plan's order.
        await asyncio.gather(*(self._take(waiting) for _ in range(takers)))
        return self._done

    async def _take(self, waiting: Iterator[Ask]) -> None:
        for ask in waiting:
            if self._done.stop:
                return
            try:
                self._keep(await self._answer(ask))
            except PurseEmptyError as error:
                self._done.stop = str(error)
            except BackboneError as error:
                self._failed(error)

    async def _answer(self, ask: Ask) -> Answered:
        settings = self._work.settings
        answered = partial(
            Answered, key=ask.key, anchor=ask.anchor, candidate=ask.candidate, whole=ask.whole
        )
        samples = settings.samples // 2
        if not isinstance(self._backbone, ModelClient):
            # A scripted agent gives the same answer every time.
            one = await asyncio.to_thread(self._backbone.answer, ask.messages)
            return answered(texts=(one.text,) * samples)
        reply = await self._backbone.chat(ask.messages, samples=samples, seed=ask.seed)
        return answered(
            texts=reply.texts,
            input_tokens=reply.input_tokens,
            cached_tokens=reply.cached_tokens,
            output_tokens=reply.output_tokens,
            attempts=reply.attempts,
        )

    def _keep(self, answer: Answered) -> None:
        append(self._file, asdict(answer))
        self._done.answered += 1
        self._failures_in_a_row = 0

    def _failed(self, error: BackboneError) -> None:
        self._done.failures.append(str(error))
        if any(status in str(error) for status in _REFUSED):
            return
        self._failures_in_a_row += 1
        if self._failures_in_a_row >= self._work.connection.failures_in_a_row:
            self._done.stop = (
                f"{self._failures_in_a_row} questions in a row got no answer; the last: {error}"
            )


def _purse_file(work: Work) -> Path | None:
    return None if work.connection.max_dollars is None else work.folder / "purse.sqlite"


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """Return this process's event loop: a client's connections belong to one."""
    return asyncio.new_event_loop()


@cache
def _backbone(
    settings: PlanSettings, connection: Connection, world: str, purse_file: Path | None
) -> Backbone:
    """Make the backbone once per process; a model that is started here takes seconds to load."""
    sampling = Sampling(
        temperature=settings.temperature, max_tokens=settings.max_tokens, stop=settings.stop
    )
    kind = settings.backbone.partition(":")[0]
    if kind == "llama":
        # As many slots as samples: one request returns all of them and reads its prompt once.
        return backbone(settings.backbone, sampling=sampling, slots=settings.samples // 2)
    if kind != "openai":
        return backbone(settings.backbone, environment=world)
    purse = None
    if connection.max_dollars is not None:
        purse = Purse(connection.max_dollars, purse_file)
    return backbone(
        settings.backbone,
        base_url=connection.base_url,
        api_key=connection.api_key or None,
        sampling=sampling,
        timeout_s=connection.timeout_s,
        max_retries=connection.max_retries,
        concurrency=connection.concurrency,
        purse=purse,
        prices=connection.prices,
    )
