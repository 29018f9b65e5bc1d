"""The folder of an experiment: what its processes hand in, and what one of them adds up.

Each process writes what its calls came to, every few seconds, as a small file of its own. Whichever
process holds the lock takes those in, closes conversations that are idle, and writes the tally. A
process that is killed loses its last few seconds, and another one takes the lock. On one machine,
or on a volume whose locks hold for all, any number of processes make one experiment.

    part-*.json    calls that were not taken in yet
    tally.json     both arms, how they compare, and the conversations that are open
    stopped.json   why AGORA is off; without it the experiment runs
"""

import json
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agora.errors import AgoraError
from agora.experiment.assignment import MOST_SHARE
from agora.experiment.conversations import Conversation
from agora.experiment.tally import Tally

try:
    import fcntl
except ImportError:  # pragma: no cover - a system without such locks
    fcntl = None  # type: ignore[assignment]

TALLY, STOPPED, LOCK = "tally.json", "stopped.json", "lock"
_VERSION = 1
_MOST_OPEN = 100_000
"""Conversations that are held open; beyond it the one that was idle longest is closed."""


class StoreError(AgoraError):
    """A folder that cannot be used for an experiment."""

    def __init__(self, folder: str, problem: str) -> None:
        super().__init__(folder, problem)
        self.folder = folder
        self.problem = problem

    def __str__(self) -> str:
        return f"the experiment's folder {self.folder!r} {self.problem}"


@dataclass(slots=True, kw_only=True)
class Account:
    """What `tally.json` holds."""

    name: str
    tally: Tally = field(default_factory=Tally)
    open: dict[str, Conversation] = field(default_factory=dict)
    taken: list[str] = field(default_factory=list)
    """Parts that are in here and may still lie in the folder, where a process died between."""
    written_at: float = 0.0
    bounds: list[str] = field(default_factory=list)
    """At which it stops."""
    share: float = MOST_SHARE
    """Of each arm."""

    def take(self, part: Mapping[str, Conversation]) -> None:
        """Take in calls."""
        for conversation_id, calls in part.items():
            self.open.setdefault(conversation_id, Conversation()).add(calls)

    def close_idle(self, now: float, idle_seconds: float) -> int:
        """Count the conversations that are over, and return how many.

        They are those of which nothing was heard for so long.
        """
        by_time = sorted(self.open.items(), key=lambda each: each[1].seen_at)
        too_many = len(by_time) - _MOST_OPEN
        for at, (conversation_id, conversation) in enumerate(by_time):
            if conversation.seen_at + idle_seconds > now and at >= too_many:
                return at
            self.tally.add(self.open.pop(conversation_id), now)
        return len(by_time)


class Store:
    """The folder, as one process uses it."""

    def __init__(self, folder: Path, name: str) -> None:
        """Make the folder ready.

        Raises:
            StoreError: it cannot be written to, or belongs to another experiment.
        """
        self._folder, self._name = folder, name
        self._parts = 0
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreError(str(folder), f"cannot be used: {error.strerror or error}") from error
        self._account: Account | None = None
        if (folder / TALLY).exists():
            found = read_account(folder).name
            if found != name:
                os.close(self._lock)
                raise StoreError(
                    str(folder),
                    f"has the experiment {found!r}, not {name!r}; give each a folder of its own",
                )

    def hand_in(self, calls: Mapping[str, Conversation]) -> None:
        """Write what calls came to, for whoever adds up."""
        if calls:
            self._parts += 1
            name = f"part-{time.time_ns():020d}-{os.getpid()}-{self._parts}.json"
            told = {"calls": {key: value.as_json() for key, value in calls.items()}}
            write(self._folder / name, told)

    def add_up(
        self,
        now: float,
        idle_seconds: float,
        bounds: Sequence[str] = (),
        share: float = MOST_SHARE,
    ) -> Account | None:
        """Return the account with all parts taken in; None where another process adds up."""
        if not self._leads():
            self._account = None
            return None
        if self._account is None:
            self._account = self._read() or Account(name=self._name)
        account = self._account
        account.bounds, account.share = list(bounds), share
        files = sorted(self._folder.glob("part-*.json"))
        for file in files:
            if file.name not in account.taken:
                account.take(_read_part(file))
        closed = account.close_idle(now, idle_seconds)
        if not files and not closed and account.written_at:
            return account
        account.taken, account.written_at = [file.name for file in files], now
        write(self._folder / TALLY, _told(account))
        for file in files:
            file.unlink(missing_ok=True)
        return account

    def close(self) -> None:
        """Let go of the lock."""
        os.close(self._lock)

    def _leads(self) -> bool:
        if fcntl is None:  # pragma: no cover
            return True
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def _read(self) -> Account | None:
        return read_account(self._folder) if (self._folder / TALLY).exists() else None


def read_account(folder: Path) -> Account:
    """Return what an experiment came to so far.

    Raises:
        StoreError: there is none, or it cannot be read.
    """
    try:
        data = json.loads((folder / TALLY).read_text(encoding="utf-8"))
        if data["version"] != _VERSION:
            raise StoreError(str(folder), f"was written by another version ({data['version']})")
        return Account(
            name=data["name"],
            tally=Tally.from_json(data["tally"]),
            open={key: Conversation.from_json(each) for key, each in data["open"].items()},
            taken=data["taken"],
            written_at=data["written_at"],
            bounds=data.get("bounds", []),
            share=data.get("share", MOST_SHARE),
        )
    except FileNotFoundError:
        raise StoreError(
            str(folder), f"has no {TALLY}: no experiment has run there for ten seconds yet"
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(str(folder), f"has a {TALLY} that cannot be read: {error!r}") from error


def stop(folder: Path, reason: str) -> None:
    """Turn AGORA off in every process of an experiment, within seconds."""
    write(folder / STOPPED, {"reason": reason, "when": time.time()})


def resume(folder: Path) -> None:
    """Take that back."""
    (folder / STOPPED).unlink(missing_ok=True)


def stopped(folder: Path) -> str:
    """Return why an experiment was stopped; nothing while it runs."""
    try:
        told = json.loads((folder / STOPPED).read_text(encoding="utf-8"))
        return str(told["reason"])
    except FileNotFoundError:
        return ""
    except (OSError, ValueError, KeyError, TypeError):
        # Somebody wanted it stopped: in doubt it is.
        return f"{STOPPED} is there and cannot be read"


def write(path: Path, data: Mapping[str, Any]) -> None:
    """Write a file that only its owner can read, all of it or nothing."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    with open(os.open(unfinished, flags, 0o600), "w", encoding="utf-8") as file:
        json.dump(data, file, separators=(",", ":"))
    os.replace(unfinished, path)


def _told(account: Account) -> dict[str, Any]:
    return {
        "version": _VERSION,
        "name": account.name,
        "written_at": account.written_at,
        "bounds": account.bounds,
        "share": account.share,
        "tally": account.tally.as_json(),
        "open": {key: each.as_json() for key, each in account.open.items()},
        "taken": account.taken,
    }


def _read_part(file: Path) -> dict[str, Conversation]:
    with suppress(OSError, ValueError, KeyError, TypeError):
        told = json.loads(file.read_text(encoding="utf-8"))["calls"]
        return {key: Conversation.from_json(each) for key, each in told.items()}
    # A part that cannot be read is a few seconds of calls: not worth stopping for.
    return {}
