"""A plan's questions, asked on Ray: each shard is a task, on this machine or on a cluster."""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from agora_lab import on_ray
from agora_lab.label.answers import Connection, Done, Work, answer_shard, answers_file, read_answers
from agora_lab.label.plan import Plan, Shard

_TOLD = 10
"""How many reasons for failures are remembered."""


@dataclass(slots=True)
class RunSummary:
    """How a run ended."""

    planned: int
    present: int = 0
    """Questions that had an answer when the run began."""
    answered: int = 0
    """Questions that got one in this run."""
    failed: int = 0
    reasons: list[str] = field(default_factory=list)
    """Why the first of them failed."""
    stopped: str = ""
    """Why the run ended before everything was asked."""

    @property
    def complete(self) -> bool:
        """True if every question has an answer."""
        return self.present + self.answered == self.planned

    def __str__(self) -> str:
        lines = [f"{self.present + self.answered:,} of {self.planned:,} questions are answered"]
        if self.failed:
            lines += [
                f"{self.failed:,} failed, for example:",
                *(f"  {one}" for one in self.reasons),
            ]
        if self.stopped:
            lines.append(self.stopped)
        if not self.complete:
            lines.append("run the same command again to ask what is missing")
        return "\n".join(lines)


def run_plan(
    plan: Plan,
    folder: Path,
    connection: Connection | None = None,
    *,
    address: str | None = None,
    shards: int | None = None,
    report: Callable[[int, int], None] | None = None,
) -> RunSummary:
    """Ask a backbone every question of a plan that has no answer in the folder.

    A kill at any time, of this process or of a node, costs the requests in flight. The same call
    asks what is missing.

    Args:
        plan: The questions.
        folder: Where each shard's answers are appended. A cluster's nodes must share it.
        connection: The address of the backbone and its limits.
        address: A Ray cluster; default `RAY_ADDRESS`, else this machine.
        shards: Most shards at once; by default as many as there are cores.
        report: Called about once a second with the answers so far and those planned.

    Raises:
        ConnectionFailedError: Ray did not start, or the cluster did not answer.
    """
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    summary = RunSummary(plan.summary.asks)
    growing = _Growing(folder)
    for shard, missing in _count_missing(plan, folder):
        summary.present += sum(1 for _ in shard.asks(plan.settings)) - missing
        if missing:
            growing.watch(shard)
    if not growing:
        return summary

    def tick() -> None:
        if report is not None:
            report(summary.present + growing.lines(), summary.planned)

    # After one shard's stop no other begins. Running shards end by themselves: their requests in
    # flight is paid for.
    tasks = (
        Work(shard, plan.settings, folder, connection or Connection())
        for shard in plan.shards()
        if growing.watches(shard) and not summary.stopped
    )
    with (
        on_ray.connect(address),
        closing(on_ray.run(answer_shard, tasks, in_flight=shards, tick=tick)) as outcomes,
    ):
        tick()
        for outcome in outcomes:
            done = outcome.value or Done(failures=[outcome.error])
            summary.failed += len(done.failures)
            summary.reasons = (summary.reasons + done.failures)[:_TOLD]
            summary.stopped = summary.stopped or done.stop
    summary.answered = growing.lines()
    tick()
    return summary


def _count_missing(plan: Plan, folder: Path) -> Iterator[tuple[Shard, int]]:
    """Yield each shard with the number of its questions that have no answer."""
    for shard in plan.shards():
        answers = read_answers(answers_file(folder, shard))
        yield shard, sum(ask.key not in answers for ask in shard.asks(plan.settings))


class _Growing:
    """The files of answers that a run adds to: how many lines they have gained."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[str, int] = {}
        self._lines = 0

    def __bool__(self) -> bool:
        return bool(self._read)

    def watch(self, shard: Shard) -> None:
        path = answers_file(self._folder, shard)
        data = path.read_bytes() if path.exists() else b""
        self._read[shard.case.name] = data.rfind(b"\n") + 1

    def watches(self, shard: Shard) -> bool:
        return shard.case.name in self._read

    def lines(self) -> int:
        for name, start in self._read.items():
            path = self._folder / f"{name}.jsonl"
            if path.exists() and path.stat().st_size > start:
                with path.open("rb") as file:
                    file.seek(start)
                    data = file.read()
                self._read[name] += data.rfind(b"\n") + 1
                self._lines += data.count(b"\n")
        return self._lines
