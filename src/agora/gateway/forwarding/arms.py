"""A request's place in an experiment: which conversation it belongs to, and in which arm that is.

A conversation is known by a header, or else by what its user said before the model first spoke:
all its calls begin with that, whichever process they come to.
"""

import json
import math
import os
import re
import time
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from agora.errors import AgoraError
from agora.experiment.assignment import Arm, Draw
from agora.experiment.conversations import Conversation
from agora.experiment.rules import parse_rule
from agora.experiment.trial import Terms, Trial
from agora.gateway.body import Unreadable, decode
from agora.gateway.config import Config, Experiment
from agora.gateway.editing.affinity import texts_in
from agora.gateway.intake.refused import RefusedError
from agora.gateway.routing.routes import Header
from agora.gateway.watching.exchange import Exchange
from agora.gateway.watching.metrics import Meter
from agora.gateway.watching.traces import OPERATIONS, error_type

OUTCOME = "/v1/agora/outcome"
ID_HEADER = b"x-agora-conversation"
"""In an answer: what its conversation is called, for posting an outcome."""
_OUTCOME_HEADER = b"x-agora-outcome"
WAITING = "experiment_waiting"
"""The reason of a body that goes on as it came because its conversation is in no arm."""
_ROLE = rb'"role"\s*:\s*$'
_ROLE_FIRST = re.compile(rb'\{\s*(?:"type"\s*:\s*"message"\s*,\s*)?' + _ROLE)
_MODEL_SPOKE = (
    (b'"assistant"', re.compile(_ROLE)),
    (b'"model"', re.compile(_ROLE)),
    (b'"function_call"', re.compile(rb'"type"\s*:\s*$')),
)
"""What only messages of the model have, and what stands before it."""
_CACHE = rb'"cache_control"\s*:\s*\{[^{}]*\}'
_MARKER = re.compile(rb",\s*" + _CACHE + rb"|" + _CACHE + rb"\s*,\s*")
_BETWEEN = re.compile(r"[\s,]*")
_LOOK_BACK = 512
_WINDOW = 8 << 10
"""Characters by which a conversation is known at most."""
_decoder = json.JSONDecoder()


class Seat(NamedTuple):
    """Where a request sits."""

    conversation_id: str
    arm: Arm
    first: bool
    """Whether it is the first call of its conversation."""


class NoSecretError(AgoraError):
    """An experiment without a secret that all its processes share."""

    def __init__(self, variable: str) -> None:
        super().__init__(variable)
        self.variable = variable

    def __str__(self) -> str:
        return (
            f"compression.mode is 'experiment' but {self.variable} is not set: arms are drawn "
            "from it, and without it every start would draw different ones; set it to a long "
            "random text, the same for all replicas"
        )


def trial_for(
    config: Config, secret: bytes, meter: Meter, running: Trial | None = None
) -> Trial | None:
    """Return the experiment that is configured, None where none is.

    One that is `running` under the same name goes on, with its new terms.

    Raises:
        AgoraError: it cannot be run.
    """
    chosen = config.experiment
    if config.compression.mode != "experiment" or chosen.folder is None:
        return None
    if not os.environ.get(config.tenants.secret_env):
        raise NoSecretError(config.tenants.secret_env)
    terms = Terms(
        name=chosen.name,
        folder=Path(chosen.folder),
        share=chosen.share,
        idle_seconds=chosen.idle_minutes * 60,
        rules=tuple(parse_rule(text) for text in chosen.stop_when),
    )
    if running is not None and (running.terms.name, running.terms.folder) == (
        terms.name,
        terms.folder,
    ):
        running.terms = terms
        return running
    trial = Trial(terms, Draw(terms.name, secret), meter.experiment_stopped)
    trial.start()
    return trial


def take_seat(
    trial: Trial,
    settings: Experiment,
    tenant: str,
    model: str,
    headers: Sequence[Header],
    body: bytes,
    field: str,
) -> Seat | None:
    """Return where a request sits; None where it is in no arm.

    `field` is where in the body the messages stand.
    """
    if trial.stopped or not _taken_in(model, settings.models):
        return None
    if not _taken_in(tenant, settings.tenants):
        return None
    told = dict(headers)
    said = told.get(settings.header.encode("ascii"), b"") or opening(body, field)
    if not said:
        return None
    conversation_id = trial.draw.id_of(tenant, said)
    arm = trial.arm(conversation_id)
    if arm is Arm.WAITING:
        return None
    outcome = _number(told.get(_OUTCOME_HEADER, b"").decode("latin-1"))
    if outcome is not None:
        trial.post(tenant, conversation_id, outcome)
    return Seat(conversation_id, arm, is_first_call(body))


def note_call(trial: Trial, seat: Seat, exchange: Exchange, *, affected: bool) -> None:
    """Count a call that is over for its arm; `affected` if it was long enough to be edited."""
    if exchange.route not in OPERATIONS:
        return
    error = error_type(exchange)
    answered = 200 <= exchange.status < 300
    trial.record(
        seat.conversation_id,
        Conversation(
            arm=seat.arm,
            model=exchange.logged_model,
            born=seat.first,
            affected=affected,
            calls=1,
            answered=int(answered),
            dollars=exchange.dollars,
            prompt_tokens=exchange.fresh + exchange.read + exchange.written,
            output_tokens=exchange.output,
            repeated=exchange.rereads,
            waited_ms=exchange.held_ms + exchange.first_byte_ms if answered else 0.0,
            errors={error: 1} if error else {},
            seen_at=time.time(),
        ),
    )


def posted(trial: Trial | None, tenant: str, body: bytes) -> bytes:
    """Take down an outcome that was posted, and return the answer.

    Raises:
        RefusedError: it says no outcome, or no experiment runs.
    """
    if trial is None:
        raise RefusedError(404, "no_experiment", "no experiment runs here: set compression.mode")
    try:
        told = decode(body)
    except Unreadable:
        told = None
    conversation = told.get("conversation") if isinstance(told, dict) else None
    outcome = _number(told.get("outcome")) if isinstance(told, dict) else None
    if not isinstance(conversation, str) or not 0 < len(conversation) <= 1_024 or outcome is None:
        raise RefusedError(
            400, "unread", 'the body must be like {"conversation": "its id", "outcome": 1.0}'
        )
    arm = trial.post(tenant, conversation, outcome)
    return b'{"counted":%b}' % (b"false" if arm is Arm.WAITING else b"true")


def opening(body: bytes, field: str) -> bytes:
    """Return what a user said before the model first spoke; nothing where that is not found.

    Of a long text only the beginning, and nothing behind it is read: this is done for every call.
    Markers for the cache are left out, since they wander from message to message.

    >>> opening(b'{"messages": [{"role": "user", "content": "hi"}]}', "messages")
    b'hi'
    """
    found = re.search(rb'"%b"\s*:\s*(?=["\[])' % field.encode(), body)
    if found is None:
        return b""
    start = found.end()
    if body[start : start + 1] == b"[":
        start = _first_user(body, start)
    window = body[start : start + _WINDOW + _LOOK_BACK]
    if b"cache_control" in window:
        window = _MARKER.sub(b"", window)
    # Cut to the same length with markers and without, so that both are cut or neither is.
    said = _said_first(window[:_WINDOW].decode("utf-8", "ignore"))
    return "\0".join(said).encode("utf-8", "surrogatepass")


def is_first_call(body: bytes) -> bool:
    r"""Tell whether the model has said nothing yet.

    >>> is_first_call(b'{"messages": [{"role": "user", "content": "\\"role\\":\\"assistant\\""}]}')
    True
    """
    # Quotes within a text are escaped, so that what is found is never a part of one.
    return not any(_placed(body, name, before) for name, before in _MODEL_SPOKE)


def _first_user(body: bytes, start: int) -> int:
    """Return where the first message of the user begins, or else the first of all.

    A long system text before it is passed over without being read.
    """
    at = body.find(b'"user"', start)
    while at >= 0:
        found = _ROLE_FIRST.search(body, max(start, at - _LOOK_BACK), at)
        if found is not None:
            return found.start()
        at = body.find(b'"user"', at + 1)
    # The role stands behind the content; then messages are read from the first one on.
    return start + 1


def _placed(body: bytes, name: bytes, before: re.Pattern[bytes]) -> bool:
    """Tell whether a word stands somewhere behind what has to be before it."""
    at = body.find(name)
    while at >= 0:
        if before.search(body, max(0, at - _LOOK_BACK), at):
            return True
        at = body.find(name, at + 1)
    return False


def _said_first(text: str) -> list[str]:
    """Return what users say in messages that may be cut off."""
    said: list[str] = []
    at = _BETWEEN.match(text).end()  # type: ignore[union-attr]
    while at < len(text) and text[at] in '{"':
        try:
            message, end = _decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            # Cut off: its beginning says enough.
            return [*said, text[at:]]
        role = message.get("role") if isinstance(message, dict) else "user"
        if role == "user":
            said += texts_in(message)
        elif role not in ("system", "developer"):
            break
        at = _BETWEEN.match(text, end).end()  # type: ignore[union-attr]
    return said


def _number(value: object) -> float | None:
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _taken_in(name: str, globs: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, glob) for glob in globs)
