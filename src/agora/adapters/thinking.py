"""Readings assembled into a trajectory whose steps are masked once the agent thinks.

Not so where the model binds thinking to the prefix: there an edit takes out the thinking of every
step it may touch, and what holds no signed block may be removed.
"""

from agora.adapters.assembly import Assembly, Reading
from agora.adapters.base import Parsed
from agora.adapters.spoken import mark_observations
from agora.adapters.thoughts import thinks
from agora.core.request import Request


def assembled(request: Request, readings: list[Reading], *, fixed_tokens: int) -> Parsed:
    """Return the trajectory in the request.

    Once there is thinking, every step is masked, never removed: what was signed has to come back
    as it was.
    """
    masks = not request.is_bound
    messages = request.messages
    mark_observations(readings, request.observations, request.system)
    assembly = Assembly(
        fixed_tokens=fixed_tokens, mask=masks and bool(request.thinking), bound=request.is_bound
    )
    for message, reading in zip(messages, readings, strict=True):
        # From here on, not from the start: an earlier prompt could not know of it.
        assembly.mask = assembly.mask or (masks and thinks(message))
        assembly.add(reading)
    return assembly.parsed(request)
