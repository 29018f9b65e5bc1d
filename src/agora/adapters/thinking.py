"""Readings assembled into a trajectory whose steps are masked once the agent thinks."""

from collections.abc import Callable

from agora.adapters.assembly import Assembly, Reading
from agora.adapters.base import Message, Parsed
from agora.adapters.spoken import mark_observations
from agora.core.request import Request


def assembled(
    request: Request,
    readings: list[Reading],
    *,
    fixed_tokens: int,
    thinks: Callable[[Message], bool],
) -> Parsed:
    """Return the trajectory in the request, of whose messages `thinks` knows those with thinking.

    Once there is thinking, every step is masked, never removed: what was signed has to come back
    as it was.
    """
    messages = request.messages
    mark_observations(readings, request.observations, request.system)
    assembly = Assembly(fixed_tokens=fixed_tokens, mask=bool(request.thinking))
    for message, reading in zip(messages, readings, strict=True):
        # From here on, not from the start: an earlier prompt could not know of it.
        assembly.mask = assembly.mask or thinks(message)
        assembly.add(reading)
    return assembly.parsed(messages)
