"""A request's place in an experiment: which conversation it belongs to, and in which arm that is.

A conversation is known by a header, or else by what its user said before the model first spoke:
all its calls begin with that, whichever process they come to.
"""

import math
import os
import time
from collections import Counter
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from agora.errors import AgoraError
from agora.experiment.agents import agent_of
from agora.experiment.assignment import Arm, Draw, Seat
from agora.experiment.conversations import Conversation
from agora.experiment.library import CONVERSATION_HEADER
from agora.experiment.openings import is_first_call, opening
from agora.experiment.rules import parse_rule
from agora.experiment.trial import Terms, Trial
from agora.gateway.body import Unreadable, decode
from agora.gateway.config import Config, Experiment
from agora.gateway.intake.refused import RefusedError
from agora.gateway.routing.routes import Header
from agora.gateway.watching.exchange import Exchange
from agora.gateway.watching.metrics import Meter
from agora.gateway.watching.traces import OPERATIONS, error_type

OUTCOME = "/v1/agora/outcome"
ID_HEADER = CONVERSATION_HEADER.encode("ascii")
"""In an answer: what its conversation is called, for posting an outcome."""
_OUTCOME_HEADER = b"x-agora-outcome"
WAITING = "experiment_waiting"
"""The reason of a body that goes on as it came because its conversation is in no arm."""


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
    agent = agent_of(told.get(b"user-agent", b"").decode("latin-1"))
    return Seat(conversation_id, arm, is_first_call(body, field), agent)


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
            elided=dict(Counter(exchange.elided_kinds)),
            asked=dict(Counter(exchange.asked_again)),
            agent=seat.agent,
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


def _number(value: object) -> float | None:
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _taken_in(name: str, globs: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, glob) for glob in globs)
