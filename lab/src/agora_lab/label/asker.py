"""The actor that asks a backbone; a journal keeps each answer until its block is committed."""

import asyncio
import json
import os
import threading
import time
import uuid
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from agora_lab.agents import BackboneError
from agora_lab.journal import Journal
from agora_lab.label.answers import Answered, answer_schema
from agora_lab.label.asking import Backbone, ask
from agora_lab.label.outputs import Landing, journal_of, journalled
from agora_lab.label.plan import Ask, read_plan, request
from agora_lab.label.progress import Counts

# Made once: with these options, `json.dumps` would make a new encoder for every answer.
_write = json.JSONEncoder(separators=(",", ":")).encode
ASK_FIELDS = [field.name for field in fields(Ask)]
_ANSWERED = [field.name for field in fields(Answered)]
_TELL_S = 0.5
_SYNC_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What an asker needs to know."""

    plan: str
    landing: Landing
    backbone: Backbone
    concurrency: int
    failures_in_a_row: int
    spare_bytes: int


class Asker:
    """An actor that asks: one event loop, one client, one journal per block in progress."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._name = uuid.uuid4().hex[:12]
        self._plan = read_plan(Path(work.plan))
        self._cases = self._plan.cases()
        self._schema = answer_schema().append(pa.field("order", pa.int64()))
        self._counts = Counts()
        self._failed_in_a_row = 0
        self._full = False
        self._unwritten = False
        self._parent = os.getppid()
        self._journals: set[Journal] = set()
        self._loop = asyncio.new_event_loop()
        self._ready: Future[None] = Future()
        threading.Thread(target=self._serve, name="asking", daemon=True).start()
        self._ready.result()

    def __call__(self, asks: pa.Table) -> pa.Table:
        """Return the answers to a block of asks, without failed or skipped ones."""
        return asyncio.run_coroutine_threadsafe(self._answer(asks), self._loop).result()

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        work = self._work
        self._client = work.backbone.connect(self._plan.settings, work.concurrency)
        self._room = asyncio.Semaphore(work.concurrency)
        # Held while a block's asks are started, so that blocks start one after another.
        self._turn = asyncio.Lock()
        self._keeping = self._loop.create_task(self._keep())
        self._ready.set_result(None)
        self._loop.run_forever()

    async def _answer(self, table: pa.Table) -> pa.Table:
        rows = table.select(ASK_FIELDS).to_pylist()
        if not rows:
            return self._schema.empty_table()
        start = table["block"][0].as_py()
        answers = self._found(start, {row["key"] for row in rows})
        journal = journal_of(self._work.landing, start, self._name)
        self._journals.add(journal)
        try:
            under_way = []
            async with self._turn:
                for row in rows:
                    if row["key"] in answers:
                        continue
                    await self._room.acquire()
                    if not self._may_ask():
                        self._room.release()
                        break
                    under_way.append(
                        self._loop.create_task(self._one(Ask(**row), answers, journal))
                    )
            # All of them, even if one fails: each may have been paid for.
            for came in await asyncio.gather(*under_way, return_exceptions=True):
                if came is not None:
                    raise came
        finally:
            self._journals.discard(journal)
            # Not here: it may wait for a busy disk, and every answer would wait with it.
            await self._loop.run_in_executor(None, journal.close)
            self._tell()
        found = [
            {**answers[row["key"]], "order": row["order"]} for row in rows if row["key"] in answers
        ]
        return pa.Table.from_pylist(found, schema=self._schema)

    async def _one(self, one: Ask, answers: dict[str, dict[str, Any]], journal: Journal) -> None:
        try:
            wanted = request(one, self._cases[one.case], self._plan.settings)
            came = await ask(one, wanted, self._client)
            row = _row(came)
            try:
                journal.add(_write(row).encode("ascii"))
            except OSError:
                # Any further answers would be paid for and lost like this one.
                self._unwritten = True
                raise
            answers[one.key] = row
            self._failed_in_a_row = 0
            counts = self._counts
            self._counts = Counts(
                answered=counts.answered + 1,
                found=counts.found,
                failed=counts.failed,
                calls=counts.calls + came.attempts,
                input_tokens=counts.input_tokens + came.input_tokens,
                cached_tokens=counts.cached_tokens + came.cached_tokens,
                output_tokens=counts.output_tokens + came.output_tokens,
            )
        except BackboneError as error:
            self._failed(one, error)
        finally:
            self._room.release()

    def _failed(self, one: Ask, error: BackboneError) -> None:
        line = json.dumps({**asdict(one), "reason": str(error)})
        with Path(f"{self._work.landing.status}/{self._name}.failures.jsonl").open("a") as file:
            file.write(f"{line}\n")
        self._counts = replace(self._counts, failed=self._counts.failed + 1)
        if error.problem.startswith("refused"):
            # The server is up; the request is at fault.
            return
        self._failed_in_a_row += 1
        if self._failed_in_a_row >= self._work.failures_in_a_row:
            Path(self._work.landing.status, "gone").touch()

    def _may_ask(self) -> bool:
        return (
            not self._full
            and not self._unwritten
            and self._failed_in_a_row < self._work.failures_in_a_row
            and self._work.landing.is_going()
            # Ray is gone and this process has not noticed: nobody would collect the answer.
            and os.getppid() == self._parent
        )

    def _found(self, start: int, wanted: set[str]) -> dict[str, dict[str, Any]]:
        """Return the journalled answers to the given asks of a block."""
        landing = self._work.landing
        answers: dict[str, dict[str, Any]] = {}
        for folder in (landing.earlier, landing.journal):
            for line in journalled(folder, start):
                row = json.loads(line)
                if row["key"] in wanted:
                    # The first answer wins, as it does for every reader.
                    answers.setdefault(row["key"], row)
            if folder == landing.earlier:
                # A killed asker of this run has already counted its own.
                self._counts = replace(self._counts, found=self._counts.found + len(answers))
        return answers

    async def _keep(self) -> None:
        """Report progress, check the disk and flush journals, as long as there are any."""
        synced = time.monotonic()
        while True:
            await asyncio.sleep(_TELL_S)
            self._tell()
            now = time.monotonic()
            if now - synced >= _SYNC_S:
                synced = now
                for journal in tuple(self._journals):
                    await self._loop.run_in_executor(None, journal.sync)
                with suppress(OSError):
                    # The folder disappears when another run takes over, which ends the asking.
                    free = free_bytes(Path(self._work.landing.folder))
                    self._full = free < self._work.spare_bytes

    def _tell(self) -> None:
        path = f"{self._work.landing.status}/{self._name}"
        try:
            Path(f"{path}.draft").write_text(json.dumps(asdict(self._counts)), encoding="utf-8")
            os.replace(f"{path}.draft", f"{path}.json")
        except OSError:
            # Disk full, or another run has taken over: neither is worth losing an answer for.
            return


def _row(came: Answered) -> dict[str, Any]:
    return {name: getattr(came, name) for name in _ANSWERED}


def free_bytes(folder: Path) -> int:
    """Return the bytes that are free on the disk of a folder."""
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize
