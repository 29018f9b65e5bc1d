"""Steps judged on request: each one's score, by the scorer that would choose among them."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import agora
from agora.adapters import broken_rules, known_format, parse, read_request
from agora.core.compression import Rung
from agora.core.floor import floor
from agora.core.past import Past
from agora.core.recall import recalled
from agora.core.request import Request
from agora.core.scorer import Scorer, scores_of
from agora.core.tokens import TokenCounter
from agora.errors import AgoraError
from agora.gateway.body import Unreadable, decode, deeper_than, encode
from agora.gateway.editing.timed import Timed
from agora.scorers import features, worth
from agora.scorers.bundle import Bundle
from agora.scorers.features import FeaturesScorer
from agora.scorers.lexical import LexicalScorer
from agora.scorers.worth import WorthScorer

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
        request = replace(request, observations=body.get("observations"))
        parsed = parse(request, self.counter)
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
            scores = scores_of(timed, past.anchor, past.steps)
        except Exception:
            scorer, rung = FeaturesScorer(), Rung.RULE
            scores = scores_of(scorer, past.anchor, past.steps)
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
        return {"name": "features", "version": features.SHIPPED_SHA256[:_DIGITS]}
    if isinstance(scorer, WorthScorer):
        return {"name": "worth", "version": worth.SHIPPED_SHA256[:_DIGITS]}
    named = LexicalScorer() if isinstance(scorer, LexicalScorer) else scorer
    name = type(named).__name__.removesuffix("Scorer").lower()
    return {"name": name, "version": agora.__version__}


def _problem(body: dict[str, Any], request: Request) -> str:
    """Return what keeps the steps from being read, or nothing."""
    if request.server_side:
        return "the provider holds the history; send the messages themselves"
    observations, pins = body.get("observations"), body.get("pins", [])
    if observations not in (None, "user", "none"):
        return 'observations is neither "user" nor "none" nor absent'
    if not isinstance(pins, list) or any(type(pin) is not int for pin in pins):
        return "pins must be a list of step numbers"
    broken = broken_rules(request)
    return f"the messages would be refused as they are: {broken[0]}" if broken else ""
