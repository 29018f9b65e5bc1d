"""The checks of a cell before its numbers are trusted (the paper's appendix A).

Two checks are gates and exclude a cell. Its tasks must not have been trained on, and no two tasks
of a chunk may have gone exactly the same way: then the environment ignored its task. The others are
reported with the cell: compression far from its target, loops, truncated answers, missing tasks.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from agora import AgoraError
from agora_lab.evaluate.rows import Row

CHUNK = 5
LOOP = 5
"""The same action this many times in a row is a loop."""
LEAST_OF_TARGET, MOST_OF_TARGET = 0.5, 2.0


class TrainedOnError(AgoraError):
    """Evaluation tasks that were also trained on."""

    def __init__(self, environment: str, tasks: Sequence[str]) -> None:
        super().__init__(environment, tuple(tasks))
        self.environment = environment
        self.tasks = tuple(tasks)

    def __str__(self) -> str:
        shown = ", ".join(self.tasks[:5])
        return (
            f"{len(self.tasks)} evaluation tasks of {self.environment} were used for training "
            f"labels ({shown}); choose another split, or labels from other tasks"
        )


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check on a cell."""

    check: str
    passed: bool | None
    """None where it could not be checked."""
    detail: str
    gate: bool = False
    """True if failing it excludes the cell."""


@dataclass(frozen=True, slots=True)
class Audit:
    """The results of all checks on a cell."""

    findings: tuple[Finding, ...]

    @property
    def admitted(self) -> bool:
        """True if the cell may appear in a table."""
        return not any(one.gate and one.passed is False for one in self.findings)

    @property
    def flags(self) -> tuple[str, ...]:
        """The checks that failed, gates or not."""
        return tuple(one.detail for one in self.findings if one.passed is False)


def refuse_trained_on(environment: str, tasks: Sequence[str], training: Sequence[str]) -> None:
    """Refuse tasks that were trained on.

    Raises:
        TrainedOnError: Some tasks were trained on.
    """
    both = set(training).intersection(tasks)
    if both:
        raise TrainedOnError(environment, [task for task in tasks if task in both])


def audit(
    rows: Sequence[Row],
    *,
    planned: Sequence[str] = (),
    training: Sequence[str] | None = None,
    compression: float | None = None,
    target: float | None = None,
) -> Audit:
    """Return the results of all checks on the episodes of one cell.

    Args:
        rows: Its episodes.
        planned: Its planned tasks, in order.
        training: The tasks of the training labels; None if unknown.
        compression: The compression achieved, compared with `none` on the same tasks.
        target: The compression it was set to, if any.
    """
    return Audit(
        (
            _tasks(rows, training),
            _trajectories(rows, planned),
            _compression(compression, target),
            _loops(rows),
            _complete(rows, planned),
        )
    )


def _tasks(rows: Sequence[Row], training: Sequence[str] | None) -> Finding:
    if training is None:
        return Finding("tasks", None, "the run does not record which tasks were trained on", True)
    both = sorted({row.task for row in rows}.intersection(training))
    names = f": {', '.join(both[:3])}" if both else ""
    detail = f"{len(both)} of its tasks were used for training labels{names}"
    return Finding("tasks", not both, detail, gate=True)


def _trajectories(rows: Sequence[Row], planned: Sequence[str]) -> Finding:
    by_seed: dict[int, dict[str, str]] = {}
    for row in rows:
        by_seed.setdefault(row.seed, {})[row.task] = row.trajectory
    same: list[str] = []
    chunks = 0
    for hashes in by_seed.values():
        order = [task for task in planned if task in hashes] or sorted(hashes)
        for start in range(0, len(order), CHUNK):
            chunks += 1
            seen: dict[str, str] = {}
            for task in order[start : start + CHUNK]:
                first = seen.setdefault(hashes[task], task)
                if first != task:
                    same.append(f"{task} went like {first}")
    names = f": {'; '.join(same[:2])}" if same else ""
    detail = f"{len(same)} tasks went exactly like another in their chunk of {CHUNK}"
    return Finding("trajectories", not same, f"{detail} ({chunks} chunks){names}", gate=True)


def _compression(compression: float | None, target: float | None) -> Finding:
    if compression is None or target is None:
        detail = "no target" if target is None else "no cell to compare with"
        return Finding("compression", None, detail)
    share = compression / target
    detail = f"compression {compression:.2f}x is {share:.2f} of its target {target:.2f}x"
    return Finding("compression", LEAST_OF_TARGET <= share <= MOST_OF_TARGET, detail)


def _loops(rows: Sequence[Row]) -> Finding:
    loops = sum(row.longest_run >= LOOP for row in rows)
    longest = max((row.longest_run for row in rows), default=0)
    cut, calls = sum(row.cut_off for row in rows), sum(row.steps for row in rows)
    detail = f"{loops} of {len(rows)} episodes with a loop (longest run {longest})"
    if cut:
        detail += f"; {cut} of {calls} answers truncated"
    return Finding("loops and truncation", not loops and not cut, detail)


def _complete(rows: Sequence[Row], planned: Sequence[str]) -> Finding:
    if not planned:
        return Finding("complete", None, "the run does not record its planned tasks")
    missing = set(planned) - {row.task for row in rows}
    detail = f"{len(planned) - len(missing)} of {len(planned)} tasks were played"
    return Finding("complete", not missing, detail)
