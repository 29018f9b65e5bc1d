"""What is checked about a cell before its numbers are trusted (the paper's appendix A).

Two checks are gates. Evaluation tasks that were trained on stop a run and exclude
a cell; so do two tasks of one chunk that went exactly the same way, since then
the environment ignored which task it was given. The other two are reported with
the cell and exclude nothing: compression far from its target, and loops and
truncated answers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from agora import AgoraError
from agora_lab.evaluate.rows import Row

CHUNK = 5
LOOP = 5
"""The same action this many times in a row is a loop."""
LEAST_OF_TARGET, MOST_OF_TARGET = 0.5, 2.0

Check = Literal["tasks", "trajectories", "compression", "loops and truncation", "complete"]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of one check on a cell."""

    check: Check
    passed: bool | None
    """None where it could not be checked."""
    gate: bool
    """Whether failing it excludes the cell."""
    says: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """The results of all checks on a cell."""

    findings: tuple[Finding, ...]

    @property
    def admitted(self) -> bool:
        """Whether the cell may appear in a table."""
        return not any(one.gate and one.passed is False for one in self.findings)

    @property
    def flags(self) -> tuple[str, ...]:
        """The checks that failed, gates or not."""
        return tuple(one.says for one in self.findings if one.passed is False)


def refuse_trained_on(environment: str, tasks: Sequence[str], training: Sequence[str]) -> None:
    """Refuse tasks that were trained on.

    Raises:
        TrainedOnError: some tasks were trained on.
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
        rows: its episodes.
        planned: its planned tasks, in order.
        training: the tasks behind training labels; None where unknown.
        compression: the compression achieved, compared with `none` on the same tasks.
        target: the compression it was set to, if any.

    """
    return Audit(
        findings=(
            _tasks(rows, training),
            _trajectories(rows, planned),
            _compression(compression, target),
            _loops(rows),
            _complete(rows, planned),
        )
    )


def _tasks(rows: Sequence[Row], training: Sequence[str] | None) -> Finding:
    if training is None:
        says = "the run does not record which tasks were trained on"
        return Finding(check="tasks", passed=None, gate=True, says=says)
    both = sorted({row.task for row in rows}.intersection(training))
    says = f"{len(both)} of its tasks were used for training labels"
    if both:
        says += f": {', '.join(both[:3])}"
    return Finding(check="tasks", passed=not both, gate=True, says=says)


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
    says = (
        f"{len(same)} tasks went exactly like another in their chunk of {CHUNK} ({chunks} chunks)"
    )
    if same:
        says += f": {'; '.join(same[:2])}"
    return Finding(check="trajectories", passed=not same, gate=True, says=says)


def _compression(compression: float | None, target: float | None) -> Finding:
    if compression is None or target is None:
        says = "no target" if target is None else "no cell to compare with"
        return Finding(check="compression", passed=None, gate=False, says=says)
    share = compression / target
    passed = LEAST_OF_TARGET <= share <= MOST_OF_TARGET
    says = f"compression {compression:.2f}x is {share:.2f} of its target {target:.2f}x"
    return Finding(check="compression", passed=passed, gate=False, says=says)


def _loops(rows: Sequence[Row]) -> Finding:
    loops = sum(row.longest_run >= LOOP for row in rows)
    longest = max((row.longest_run for row in rows), default=0)
    cut, calls = sum(row.cut_off for row in rows), sum(row.steps for row in rows)
    says = f"{loops} of {len(rows)} episodes with a loop (longest run {longest})"
    if cut:
        says += f"; {cut} of {calls} answers truncated"
    return Finding(
        check="loops and truncation", passed=not loops and not cut, gate=False, says=says
    )


def _complete(rows: Sequence[Row], planned: Sequence[str]) -> Finding:
    if not planned:
        says = "the run does not record its planned tasks"
        return Finding(check="complete", passed=None, gate=False, says=says)
    missing = set(planned) - {row.task for row in rows}
    says = f"{len(planned) - len(missing)} of {len(planned)} tasks were played"
    return Finding(check="complete", passed=not missing, gate=False, says=says)
