"""A running experiment in one process: who gets what, what came of it, and when it stops."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from agora.experiment.assignment import Arm, Draw, arm_of, is_id
from agora.experiment.conversations import Conversation
from agora.experiment.rules import Rule, Verdict, alpha_each
from agora.experiment.store import Store, stop, stopped
from agora.experiment.tally import Tally

_log = logging.getLogger("agora.experiment")
_TICK_SECONDS = 5.0
_MOST_NEW = 50_000
"""Conversations between two ticks; calls of further ones are not counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How an experiment goes."""

    name: str
    folder: Path
    share: float
    """Of each arm."""
    idle_seconds: float
    rules: tuple[Rule, ...]


def harm(tally: Tally, rules: tuple[Rule, ...]) -> str:
    """Return which bound was surely passed, in a sentence; nothing if none was."""
    alpha = alpha_each(len(rules))
    for rule in rules:
        if rule.verdict(tally.compared.get(rule.figure), alpha) is Verdict.HARM:
            return f"{rule.text}, after {tally.conversations} conversations"
    return ""


@dataclass(slots=True)
class Trial:
    """One experiment, for the requests of one process. Safe to call from its event loop."""

    terms: Terms
    draw: Draw
    on_stop: Callable[[bool], None] = lambda _: None
    """Told whenever it is known whether the experiment is stopped."""
    stopped: str = ""
    _store: Store = field(init=False)
    _new: dict[str, Conversation] = field(default_factory=dict, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    _over: threading.Event = field(default_factory=threading.Event, init=False)
    _thread: threading.Thread | None = field(default=None, init=False)
    _failing: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self._store = Store(self.terms.folder, self.terms.name)
        self.stopped = stopped(self.terms.folder)

    def start(self) -> None:
        """Begin to write and to judge, in a thread."""
        self._thread = threading.Thread(target=self._run, name="agora-experiment", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Hand in what is left, and stop."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        self._try_tick()
        self._store.close()

    def arm(self, conversation_id: str) -> Arm:
        """Return what a conversation gets by its draw, whether or not the experiment is stopped."""
        return arm_of(conversation_id, self.terms.share)

    def record(self, conversation_id: str, calls: Conversation) -> None:
        """Count a call that is over."""
        with self._lock:
            known = self._new.get(conversation_id)
            if known is not None:
                known.add(calls)
            elif len(self._new) < _MOST_NEW:
                self._new[conversation_id] = calls

    def post(self, tenant: str, conversation: str, outcome: float) -> Arm:
        """Take down how a conversation ended, by its id or by what its header said."""
        told = conversation
        if not is_id(told):
            told = self.draw.id_of(tenant, conversation.encode())
        arm = self.arm(told)
        if arm is not Arm.WAITING:
            posted = Conversation(arm=arm, outcome=outcome, seen_at=time.time())
            self.record(told, posted)
        return arm

    def tick(self) -> None:
        """Hand in what is new, add up if nobody else does, and stop where harm is certain."""
        with self._lock:
            new, self._new = self._new, {}
        self._store.hand_in(new)
        terms = self.terms
        bounds = [rule.text for rule in terms.rules]
        account = self._store.add_up(time.time(), terms.idle_seconds, bounds, terms.share)
        why = stopped(terms.folder)
        if not why and account is not None and (why := harm(account.tally, terms.rules)):
            stop(terms.folder, why)
        if why and not self.stopped:
            _log.error("the experiment %s is stopped, AGORA is off: %s", terms.name, why)
        elif self.stopped and not why:
            _log.warning("the experiment %s is resumed", terms.name)
        self.stopped = why
        self.on_stop(bool(why))

    def _run(self) -> None:
        while not self._over.wait(_TICK_SECONDS):
            self._try_tick()

    def _try_tick(self) -> None:
        try:
            self.tick()
            self._failing = False
        except Exception as error:
            # Requests go on as they are drawn; what could not be written is missing.
            if not self._failing:
                _log.warning("the experiment could not be written: %s", type(error).__name__)
            self._failing = True
