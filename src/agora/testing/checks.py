"""What every adapter and every scorer has to hold; each check says in a sentence what does not."""

import copy
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from agora.adapters import FORMATS, Adapter, Parsed, validate
from agora.core.renditions.gone import gone
from agora.core.renditions.markers import FormMarkers
from agora.core.renditions.rendition import Place, Rendition
from agora.core.request import Request
from agora.core.scorer import Scorer
from agora.core.tokens import Characters
from agora.core.trajectory import Anchor, Step
from agora.testing.choices import PIECES
from agora.testing.history import History, sample

Legal = Callable[[Any, History], bool]
"""Tells whether messages are legal in the request that a history stands for."""

_SAMPLES = 50


def check_adapter(
    adapter: Adapter, histories: Iterable[History] | None = None, *, legal: Legal | None = None
) -> None:
    """Pass if the adapter reads and writes every history as adapters have to.

    Parsing and rendering with nothing elided gives equal messages; the caller's
    objects never change; steps are numbered from 1, are as many as the history
    has, and each is closed over its calls and results; and whichever steps are
    elided, what comes out is legal.

    Args:
        adapter: what is checked.
        histories: what it has to read; for the seven formats some are made when none are given.
        legal: says whether messages are legal; by default `agora.validate` does.

    Raises:
        AssertionError: one of these does not hold.
    """
    is_legal = legal or _validated
    if histories is None:
        assert adapter.name in FORMATS, (  # noqa: S101
            f"no histories can be made for {adapter.name!r}; give some that it has to read"
        )
        histories = sample(adapter.name, _SAMPLES)
    for history in histories:
        _check_adapter_on(adapter, history, is_legal)


def _check_adapter_on(adapter: Adapter, history: History, legal: Legal) -> None:
    messages = copy.deepcopy(history.messages)
    request = Request(
        messages=messages,
        format=adapter.name,
        observations=history.observations,
        **history.options,
    )
    parsed = adapter.parse(request, Characters())
    _hold(messages == history.messages, "parsing changed the caller's messages", history)
    steps = parsed.trajectory.steps
    _hold(
        [step.number for step in steps] == list(range(1, len(steps) + 1)),
        "steps are not numbered from 1 without a gap",
        history,
    )
    _hold(
        len(steps) == history.steps,
        f"{len(steps)} steps were read where there are {history.steps}",
        history,
    )
    _check_closed(parsed, history)
    markers = FormMarkers()
    rendered = adapter.render(parsed, {}, markers)
    _hold(
        rendered.messages == history.messages and type(rendered.messages) is type(messages),
        "rendering with nothing elided does not give the messages back",
        history,
    )
    _hold(not rendered.added, "rendering with nothing elided added a text", history)
    candidates = [step.number for step in steps[:-1] if not step.fixed]
    for elided in _subsets(candidates):
        renditions = {n: _shorter(steps[n - 1]) for n in elided}
        rendered = adapter.render(parsed, renditions, markers)
        _hold(messages == history.messages, "rendering changed the caller's messages", history)
        _hold(
            legal(rendered.messages, history),
            f"without steps {elided} the messages are not legal",
            history,
        )
        _hold(
            bool(rendered.added) == bool(elided),
            f"steps {elided} were elided and no marker says so",
            history,
        )


def _shorter(step: Step) -> Rendition:
    """Return a step as a line, as nothing, or where it cannot be removed with notes."""
    if not step.removable:
        return Rendition(step.number, "action", (Place(None, f"ok {step.number}"),), 0, 0.0)
    if step.number % 2:
        return Rendition(step.number, "line", (Place("look", f"ok {step.number}"),), 0, 0.0)
    return gone(step.number)


def _check_closed(parsed: Parsed, history: History) -> None:
    for number, positions in enumerate(history.closed, start=1):
        if parsed.spans:
            whole = (positions[0], positions[1]) in parsed.spans
        else:
            whole = {abs(parsed.owners[position]) for position in positions} == {number}
        _hold(whole, f"step {number} is not closed over {positions}", history)


def _subsets(numbers: list[int]) -> Iterator[list[int]]:
    """Yield the subsets that differ most: all, each one, each but one, every other."""
    yield numbers
    for n in numbers:
        yield [n]
        yield [other for other in numbers if other != n]
    yield numbers[::2]
    yield numbers[1::2]


def _validated(messages: Any, history: History) -> bool:
    return not validate(messages, format=history.format, before=history.messages, **history.options)


def _hold(holds: bool, sentence: str, history: History) -> None:
    if not holds:
        raise AssertionError(f"{sentence}: {history!r}")


def check_scorer(scorer: Scorer) -> None:
    """Pass if the scorer gives one finite score in [0, 1] per step, the same ones each time.

    It is asked about no step, one step and many, with texts in many scripts, empty
    texts, and texts that look like markers, roles and special tokens.

    Raises:
        AssertionError: it does not, or it changed what it was given.
    """
    for anchor, steps in _questions():
        asked = list(steps)
        scores = list(scorer.score(anchor, asked))
        said = f"for {len(steps)} steps and the anchor {anchor!r}"
        assert asked == steps, f"the scorer changed the steps it was given {said}"  # noqa: S101
        assert len(scores) == len(steps), f"there are {len(scores)} scores {said}"  # noqa: S101
        for step, score in zip(steps, scores, strict=True):
            fits = (
                isinstance(score, int | float)
                and not isinstance(score, bool)
                and math.isfinite(score)
                and 0 <= score <= 1
            )
            assert fits, f"{score!r} is no score in [0, 1] {said}: {step!r}"  # noqa: S101
        again = list(scorer.score(anchor, list(steps)))
        assert scores == again, f"the same question got other scores {said}"  # noqa: S101


def _questions() -> Iterator[tuple[Anchor, list[Step]]]:
    texts = ("", " ", *PIECES, "long " * 2_000, "x" * 5_000)
    steps = [
        Step(number=n, action=texts[-n], observation=text, tokens=len(text))
        for n, text in enumerate(texts, start=1)
    ]
    for anchor in (Anchor("", ""), Anchor("find it", texts[4]), Anchor(texts[-1], texts[6])):
        yield anchor, []
        yield anchor, steps
        for size in (1, 2):
            yield from ((anchor, steps[at : at + size]) for at in range(0, len(steps), 3))
