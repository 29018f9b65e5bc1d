"""Steps judged on request: each one's score, by the scorer that would choose among them."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import agora
from agora.adapters import ADAPTERS, Context, known_format, validate
from agora.adapters.request import Request, read_request
from agora.core.compression import Rung
from agora.core.floor import floor
from agora.core.recall import recalled
from agora.core.scorer import Scorer
from agora.core.select import Past
from agora.core.tokens import TokenCounter
from agora.core.trajectory import Step
from agora.errors import AgoraError, ScoreError
from agora.gateway.body import Unreadable, decode, deeper_than, encode
from agora.gateway.edit import Timed
from agora.scorers.bundle import Bundle
from agora.scorers.features import SHIPPED_SHA256, FeaturesScorer

PATH = "/v1/agora/score"
_DIGITS = 12
"""Of a hash: enough to tell two bundles apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A body whose steps are to be judged, and how long somebody waits for it."""

    body: bytes
    until: float = float("inf")
    gone: Callable[[], bool] = bool


@dataclass(frozen=True, slots=True)
class Judged:
    """An answer, or why there is none."""

    body: bytes = b""
    steps: int = 0
    rung: Rung = Rung.SCORED
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """Scores the steps of bodies in any format that is read here. Safe to call from threads."""

    scorer: Scorer
    counter: TokenCounter
    k_recent: int = 2
    depth: int = 64

    def __call__(self, question: Question) -> Judged:
        """Return each step's score, or what is wrong with the body."""
        if deeper_than(question.body, self.depth):
            return Judged(problem=f"the body is nested more than {self.depth} deep")
        try:
            body = decode(question.body)
        except Unreadable:
            return Judged(problem="the body is not JSON")
        if not isinstance(body, dict):
            found = type(body).__name__
            return Judged(problem=f"the body is a {found}; send an object with messages or input")
        try:
            return self._judged(body, question)
        except AgoraError as error:
            return Judged(problem=str(error))

    def _judged(self, body: dict[str, Any], question: Question) -> Judged:
        named = body.get("format")
        if named is not None and not isinstance(named, str):
            return Judged(problem=f"format is a {type(named).__name__}; name one, or leave it out")
        request = read_request(body, format=known_format(named) if named else None)
        problem = _problem(body, request)
        if problem:
            return Judged(problem=problem)
        context = Context(
            counter=self.counter,
            system=request.system,
            tools=request.tools,
            thinking=request.thinking,
            observations=body.get("observations"),
        )
        parsed = ADAPTERS[request.format].parse(request.messages, context)
        trajectory = parsed.trajectory
        past = Past.of(trajectory, len(trajectory.steps), newest=True)
        held = floor(
            past.steps,
            k_recent=self.k_recent,
            pins=body.get("pins", ()),
            recalled=recalled(past.steps),
        )
        scorer, rung = self.scorer, Rung.SCORED
        timed = Timed(scorer, question.until, question.gone)
        try:
            scores = _checked(timed.score(past.anchor, past.steps), past.steps, scorer)
        except Exception:
            scorer, rung = FeaturesScorer(), Rung.RULE
            scores = _checked(scorer.score(past.anchor, past.steps), past.steps, scorer)
        places: list[list[int]] = [[] for _ in past.steps]
        for place, owner in enumerate(parsed.owners):
            if owner:
                places[abs(owner) - 1].append(place)
        said = {
            "format": request.format,
            "scorer": identity(scorer),
            "rung": int(rung),
            "tokens": trajectory.tokens,
            "steps": [
                {
                    "number": step.number,
                    "score": score,
                    "floor": step.number in held,
                    "why": held.get(step.number, ""),
                    "tokens": step.tokens,
                    "messages": places[step.number - 1],
                }
                for step, score in zip(past.steps, scores, strict=True)
            ],
        }
        return Judged(encode(said), len(past.steps), rung)


def identity(scorer: Scorer) -> dict[str, str]:
    """Return a scorer's name, and a version that changes when its scores may.

    >>> identity(FeaturesScorer())["name"]
    'features'
    """
    bundle = getattr(scorer, "bundle", None)
    if isinstance(bundle, Bundle):
        hashes = "\n".join(sha256 for _, sha256 in sorted(bundle.files.items()))
        version = hashlib.sha256(hashes.encode()).hexdigest()[:_DIGITS]
        return {"name": bundle.scorer, "version": version}
    if isinstance(scorer, FeaturesScorer):
        return {"name": "features", "version": SHIPPED_SHA256[:_DIGITS]}
    name = type(scorer).__name__.removesuffix("Scorer").lower()
    return {"name": name, "version": agora.__version__}


def _problem(body: dict[str, Any], request: Request) -> str:
    """Return what keeps the steps from being read, or nothing."""
    if request.server_side:
        return "the provider holds the history; send the messages themselves"
    observations, pins = body.get("observations"), body.get("pins", [])
    if observations not in (None, "user"):
        return 'observations is neither "user" nor absent'
    if not isinstance(pins, list) or any(type(pin) is not int for pin in pins):
        return "pins is no list of step numbers"
    broken = [
        str(rule)
        for rule in validate(
            request.messages,
            format=request.format,
            system=request.system,
            tools=request.tools,
            thinking=request.thinking,
        )
    ]
    return f"the messages would be refused as they are: {broken[0]}" if broken else ""


def _checked(scores: Sequence[float], steps: Sequence[Step], scorer: Scorer) -> Sequence[float]:
    """Return the scores if they are what a scorer has to give."""
    if len(scores) != len(steps) or not all(0 <= score <= 1 for score in scores):
        raise ScoreError(type(scorer).__name__, "not one score in [0, 1] for each step")
    return scores
