"""What every format has to hold; the check says in a sentence what does not."""

import copy
from collections.abc import Iterable, Iterator
from typing import Any

from agora import Step
from agora.core import Characters, Form, Markers, Place, Request, omitted
from agora.formats import Format, Parsed, validate
from harness.histories.history import History


def check_format(format: Format, histories: Iterable[History]) -> None:
    """Pass if the format reads and writes every history as formats have to.

    Parsing and rendering with nothing elided gives equal messages; the caller's
    objects never change; steps are numbered from 1, are as many as the history
    has, and each is closed over its calls and results; and whichever steps are
    elided, what comes out is legal.

    Raises:
        AssertionError: one of these does not hold.
    """
    for history in histories:
        _check_format_on(format, history)


def _check_format_on(format: Format, history: History) -> None:
    messages = copy.deepcopy(history.messages)
    request = Request(
        messages=messages,
        format=format.name,
        observations=history.observations,
        **history.options,
    )
    parsed = format.parse(request, Characters())
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
    markers = Markers()
    rendered = format.render(parsed, {}, markers)
    _hold(
        rendered.messages == history.messages and type(rendered.messages) is type(messages),
        "rendering with nothing elided does not give the messages back",
        history,
    )
    _hold(not rendered.added, "rendering with nothing elided added a text", history)
    candidates = [step.number for step in steps[:-1] if not step.fixed]
    for elided in _subsets(candidates):
        forms = {n: _shorter(steps[n - 1]) for n in elided}
        rendered = format.render(parsed, forms, markers)
        _hold(messages == history.messages, "rendering changed the caller's messages", history)
        _hold(
            _legal(rendered.messages, history),
            f"without steps {elided} the messages are not legal",
            history,
        )
        _hold(
            bool(rendered.added) == bool(elided),
            f"steps {elided} were elided and no marker says so",
            history,
        )


def _shorter(step: Step) -> Form:
    """Return a step as a line, as nothing, or where it cannot be removed with notes."""
    if not step.removable:
        return Form(step.number, "note", (Place(None, f"ok {step.number}"),), 0)
    if step.number % 2:
        return Form(step.number, "line", (Place("look", f"ok {step.number}"),), 0)
    return omitted(step.number)


def _check_closed(parsed: Parsed, history: History) -> None:
    for number, positions in enumerate(history.closed, start=1):
        if parsed.spans:
            whole = (positions[0], positions[1]) in parsed.spans
        else:
            whole = {abs(parsed.step_of_message[position]) for position in positions} == {number}
        _hold(whole, f"step {number} is not closed over {positions}", history)


def _subsets(numbers: list[int]) -> Iterator[list[int]]:
    """Yield the subsets that differ most: all, each one, each but one, every other."""
    yield numbers
    for n in numbers:
        yield [n]
        yield [other for other in numbers if other != n]
    yield numbers[::2]
    yield numbers[1::2]


def _legal(messages: Any, history: History) -> bool:
    return not validate(messages, format=history.format, before=history.messages, **history.options)


def _hold(holds: bool, sentence: str, history: History) -> None:
    if not holds:
        raise AssertionError(f"{sentence}: {history!r}")
