"""Runs a plan on Ray Data: the only labelling module that depends on Ray.

Ray Data reads blocks of asks, actors ask the backbone, write tasks commit
blocks of answers. Three things differ from plain Ray Data. Blocks are
consecutive asks of the plan and an actor starts them in order, so a server's
prefix cache sees the plan's order. Earlier answers are known by their place in
the plan, so Ray's own filter, which sorts the keys of all answers in memory, is
not used; its two-phase commit is. And an actor keeps every answer in a journal
until its block is committed: Ray commits whole blocks, and a kill must cost only
the calls in flight.
"""

import errno
import json
import logging
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import ray
from ray.data import ActorPoolStrategy, DataContext
from ray.data.block import BlockMetadata
from ray.data.checkpoint import CheckpointConfig, CheckpointManager
from ray.data.datasource import Datasource, ReadTask

from agora.core.prices import PriceSheet
from agora.errors import AgoraError
from agora_lab.label.asker import ASK_FIELDS, Asker, Work, free_bytes
from agora_lab.label.asking import Backbone
from agora_lab.label.blocks import Block, cut
from agora_lab.label.outputs import FAILURES, Output
from agora_lab.label.plan import ASKS, Plan, read_plan
from agora_lab.label.progress import Counts, Pace, Progress, total
from agora_lab.label.ray_session import RunError, started_ray

logger = logging.getLogger(__name__)

_BLOCKS_AT_ONCE = 2
"""Blocks an actor works on: the next starts while the last asks of one are in flight."""
_PASSES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """How a run ended."""

    progress: Progress
    stopped: str
    """Why it ended before everything was asked; empty if everything was."""
    failures: tuple[str, ...]
    """The first failed asks, with key and reason."""

    @property
    def complete(self) -> bool:
        """Whether every ask of the plan has an answer."""
        return self.progress.sealed == self.progress.planned

    def __str__(self) -> str:
        at = self.progress
        lines = [f"{at.sealed:,} of {at.planned:,} answers are written"]
        if at.counts.failed:
            lines.append(f"{at.counts.failed:,} failed, listed in {FAILURES}; the first:")
            lines += [f"  {reason}" for reason in self.failures]
        if self.stopped:
            lines.append(self.stopped)
        if not self.complete:
            lines.append("run the same command again to resume")
        return "\n".join(lines)


def run_plan(
    plan_folder: Path,
    out_folder: Path,
    backbone: Backbone,
    *,
    concurrency: int = 8,
    askers: int = 1,
    block_asks: int | None = None,
    sheet: PriceSheet | None = None,
    report: Callable[[Progress], None] | None = None,
    report_s: float = 1.0,
    failures_in_a_row: int = 20,
    spare_mib: int = 64,
    ray_options: Mapping[str, Any] | None = None,
) -> RunSummary:
    """Ask a backbone every question of a plan that has no answer yet.

    Answers go to `out_folder/answers` as Parquet, each exactly once. Whatever dies,
    the same call resumes: at most the calls in flight are repeated. On SIGTERM or
    SIGINT, calls in flight are finished, everything is written and the function
    returns; a second signal does not wait.

    `concurrency` requests are under way over all `askers`, the processes that ask; for a
    llama.cpp server with one slot, 1 or 2 keeps its cache warm. `block_asks` answers are
    committed together, by default a 64th of the plan. `report` is called about every
    `report_s` seconds in this thread, with dollars by `sheet`. After `failures_in_a_row` the
    server is taken to be gone, and asking stops when less than `spare_mib` of disk is free.
    `ray_options` are for `ray.init`: with an `address` the run goes to that cluster, whose
    machines share both folders.

    Raises:
        PlanError: there is no plan, or its files have changed.
        OutputError: another run is writing there, or it was started with other settings.
        RunError: the run broke: disk full, or a worker that cannot start.
    """
    plan = read_plan(plan_folder)
    settings = output_settings(plan, backbone, block_asks)
    try:
        with Output(out_folder, settings, plan.summary.calls) as output:
            run = _Run(
                plan=plan,
                output=output,
                backbone=backbone,
                concurrency=concurrency,
                askers=askers,
                block_asks=settings["block_asks"],
                sheet=sheet,
                report=report,
                report_s=report_s,
                failures_in_a_row=failures_in_a_row,
                spare_mib=spare_mib,
                ray_options=ray_options or {},
            )
            return run.go()
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise RunError(_no_room(out_folder)) from error


def output_settings(plan: Plan, backbone: Backbone, block_asks: int | None) -> dict[str, Any]:
    """Return the settings that must not change between runs into one folder."""
    return {
        "plan": plan.digest,
        **{f"plan.{name}": value for name, value in asdict(plan.settings).items()},
        "model": backbone.model,
        "block_asks": block_asks or min(4096, max(64, plan.summary.calls // 64)),
    }


def _no_room(folder: Path) -> str:
    return (
        f"the disk of {str(folder)!r} is full; the answers so far are kept: free some space "
        "and run the same command again"
    )


@dataclass(slots=True, kw_only=True)
class _Run:
    """One run of a plan, from locking its folder to its summary."""

    plan: Plan
    output: Output
    backbone: Backbone
    concurrency: int
    askers: int
    block_asks: int
    sheet: PriceSheet | None
    report: Callable[[Progress], None] | None
    report_s: float
    failures_in_a_row: int
    spare_mib: int
    ray_options: Mapping[str, Any]
    began: float = field(default_factory=time.monotonic)
    before: int = 0
    pace: Pace = field(default_factory=Pace)
    signalled: str = ""

    def go(self) -> RunSummary:
        self.before = int(self.output.done.sum())
        blocks = list(cut(_group_rows(self.plan.asks_file), self.block_asks))
        starts = [block.start for block in blocks]
        self.output.forget_journals(starts)
        if self.before < len(self.output.done):
            with started_ray(self.askers, self.ray_options), self._signals():
                for _ in range(_PASSES):
                    counts_before = self._counts()
                    self._pass(blocks)
                    counts = self._counts()
                    if self.signalled or counts.failed or self.output.done.all():
                        break
                    if counts == counts_before:
                        break
        progress = self._progress()
        reasons = self._failures()
        gone = (Path(self.output.landing.status) / "gone").exists()
        room = free_bytes(self.output.folder) < self.spare_mib * 2**20
        self.output.finish()
        self.output.forget_journals(starts)
        stopped = self.signalled
        if gone:
            stopped = (
                f"the backbone at {self.backbone.address} did not answer "
                f"{self.failures_in_a_row} asks in a row, so the run stopped"
            )
        elif room and not self.output.done.all():
            raise RunError(_no_room(self.output.folder))
        return RunSummary(
            progress=replace(progress, sealed=int(self.output.done.sum())),
            stopped=stopped,
            failures=reasons,
        )

    def _pass(self, blocks: list[Block]) -> None:
        """Ask once for every missing answer; return when all are written or have failed."""
        starts = [block.start for block in blocks]
        missing = list(_missing(blocks, self.output.done))
        landing = self.output.landing
        work = Work(
            plan=str(self.plan.folder.resolve()),
            landing=landing,
            backbone=self.backbone,
            concurrency=max(1, self.concurrency // self.askers),
            failures_in_a_row=self.failures_in_a_row,
            spare_bytes=self.spare_mib * 2**20,
        )
        failed: list[BaseException] = []

        def execute() -> None:
            try:
                _execute(work, missing, self.askers)
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=execute, name="agora-labelling", daemon=True)
        thread.start()
        shown = time.monotonic()
        while thread.is_alive():
            thread.join(timeout=0.25)
            now = time.monotonic()
            if now - shown >= self.report_s:
                shown = now
                self.output.seal()
                self.output.forget_journals(starts)
                progress = self._progress()
                if self.report is not None:
                    self.report(progress)
        self.output.seal()
        if self.report is not None:
            self.report(self._progress())
        if failed:
            self.output.finish()
            raise _told_plainly(failed[0], self.output.folder) from failed[0]

    def _counts(self) -> Counts:
        found = []
        for path in Path(self.output.landing.status).glob("*.json"):
            try:
                found.append(Counts(**json.loads(path.read_bytes())))
            except (OSError, ValueError, TypeError):
                continue
        return total(found)

    def _progress(self) -> Progress:
        counts = self._counts()
        seconds = time.monotonic() - self.began
        return Progress(
            planned=len(self.output.done),
            before=self.before,
            counts=counts,
            sealed=int(self.output.done.sum()),
            seconds=seconds,
            rate=self.pace.at(seconds, counts.answered),
            dollars=counts.dollars(self.sheet),
        )

    def _failures(self) -> tuple[str, ...]:
        """Collect this run's failures in one file; return the first reasons."""
        draft = self.output.folder / f"{FAILURES}.draft"
        first: list[str] = []
        with draft.open("wb") as file:
            for path in sorted(Path(self.output.landing.status).glob("*.failures.jsonl")):
                for line in path.read_bytes().splitlines(keepends=True):
                    if line.endswith(b"\n"):
                        file.write(line)
                        if len(first) < 10:
                            found = json.loads(line)
                            first.append(f"{found['key'][:12]} {found['reason']}")
        draft.replace(self.output.folder / FAILURES)
        return tuple(first)

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Treat SIGTERM and SIGINT as requests to stop, where signals can be handled."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def stop(number: int, _: FrameType | None) -> None:
            if self.signalled:
                raise KeyboardInterrupt
            self.signalled = f"stopped by {signal.Signals(number).name}"
            self.output.stop()

        held = {one: signal.signal(one, stop) for one in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for one, before in held.items():
                signal.signal(one, before)


def _group_rows(asks_file: Path) -> list[int]:
    metadata = pq.read_metadata(asks_file)
    return [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]


def _missing(blocks: Iterable[Block], done: "np.ndarray[Any, Any]") -> Iterator[Block]:
    """Return the blocks with missing answers, and which answers each has."""
    for block in blocks:
        part = done[block.start : block.stop]
        if not part.all():
            yield replace(block, done=np.packbits(part).tobytes() if part.any() else b"")


_READING = threading.Lock()


@lru_cache(maxsize=1)
def _opened(asks_file: str) -> pq.ParquetFile:
    # Kept open: reading the row-group metadata of a large plan takes longer than reading a block.
    return pq.ParquetFile(asks_file)


def _read_block(work: Work, asks_file: str, block: Block) -> Iterable[pa.Table]:
    """Return the asks of a block without an answer; none at all once the run is stopping."""
    if not work.landing.is_going():
        return
    with _READING:
        file = _opened(asks_file)
        parts = []
        group, at = block.group, block.group_start
        while at < block.stop:
            parts.append(file.read_row_group(group, columns=ASK_FIELDS))
            at += parts[-1].num_rows
            group += 1
    table = pa.concat_tables(parts).slice(block.start - block.group_start, block.stop - block.start)
    if block.done:
        done = np.unpackbits(np.frombuffer(block.done, np.uint8), count=table.num_rows)
        table = table.filter(pa.array(done == 0))
    yield table.append_column("block", pa.array([block.start] * table.num_rows, pa.int64()))


class _Asks(Datasource):
    """The asks of a plan without an answer yet, one read task per block."""

    def __init__(self, work: Work, asks_file: Path, blocks: list[Block]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._work = work
        self._asks_file = str(asks_file)
        self._blocks = blocks

    def estimate_inmemory_data_size(self) -> int:
        return sum(block.stop - block.start for block in self._blocks) * 128

    def get_read_tasks(self, *_: object, **__: object) -> list[ReadTask]:
        return [
            ReadTask(
                partial(_read_block, self._work, self._asks_file, block),
                BlockMetadata(
                    num_rows=block.stop - block.start,
                    size_bytes=(block.stop - block.start) * 128,
                    exec_stats=None,
                    input_files=None,
                ),
            )
            for block in self._blocks
        ]


class _NothingToFilter(CheckpointManager):
    """Filters nothing: asks with an answer are not read in the first place."""

    def load_checkpoint(self, *_: object, **__: object) -> tuple[None, int]:
        return None, 0


def _execute(work: Work, blocks: list[Block], askers: int) -> None:
    context = DataContext.get_current()
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    # It reads the asker's whole memory map every second, for a limit that is not set here.
    context.memory_usage_poll_interval_s = None
    context.checkpoint_config = CheckpointConfig(
        id_column="key",
        checkpoint_path=work.landing.checkpoint,
        delete_checkpoint_on_success=False,
        checkpoint_manager_cls=_NothingToFilter,
    )
    try:
        dataset = ray.data.read_datasource(
            _Asks(work, Path(work.plan) / ASKS, blocks), override_num_blocks=len(blocks)
        )
        dataset = dataset.map_batches(
            Asker,
            fn_constructor_kwargs={"work": work},
            batch_size=None,
            batch_format="pyarrow",
            zero_copy_batch=True,
            num_cpus=1,
            compute=ActorPoolStrategy(
                size=min(askers, len(blocks)),
                max_concurrent_calls_per_actor=_BLOCKS_AT_ONCE,
                max_tasks_in_flight_per_actor=_BLOCKS_AT_ONCE + 1,
                enable_true_multi_threading=True,
            ),
        )
        dataset.write_parquet(work.landing.data, concurrency=min(2, len(blocks)))
    finally:
        context.checkpoint_config = None


def _told_plainly(error: BaseException, folder: Path) -> AgoraError:
    """Return our own error for one that Ray wraps in several of its own."""
    text = str(error)
    if "No space left on device" in text or "[Errno 28]" in text:
        return RunError(_no_room(folder))
    lines = [line for line in text.splitlines() if line.strip()]
    return RunError(
        f"the run broke off: {lines[-1].strip() if lines else type(error).__name__}; the answers "
        "so far are kept, and the same command resumes the run"
    )
