"""A recorded trajectory whose results arrive with references to what the prompt shows already."""

from collections import Counter
from dataclasses import replace

from agora.adapters import Parsed
from agora.adapters.results import rewritten
from agora.compressor import Compressor
from agora.core.compression import Compression
from agora.core.tokens import TokenCounter
from agora.core.trajectory import Trajectory
from agora.logs import Recording


def with_references(
    recording: Recording, trajectory: Trajectory, compressor: Compressor, counter: TokenCounter
) -> Trajectory:
    """Return a recording's trajectory in which each step is as long as it would have arrived.

    Nothing is elided: a reference is found in what stands before it, so every call sends what the
    one before it sent, and something more.
    """
    arriving = replace(compressor, repeats=True, noise=(), schedule="never", counter=counter)
    asked = recording.request()
    compression = arriving.compress(
        asked.messages,
        model=asked.model,
        format=asked.format,
        observations=asked.observations,
        system=asked.system,
        tools=asked.tools,
        thinking=asked.thinking,
    )
    if not compression.arrived.results:
        return trajectory
    before = _result_tokens(compression, asked.messages, counter)
    after = _result_tokens(compression, compression.messages, counter)
    steps = tuple(
        step._replace(tokens=step.tokens - before[step.number] + after[step.number])
        for step in trajectory.steps
    )
    return replace(trajectory, steps=steps)


def _result_tokens(
    compression: Compression, messages: object, counter: TokenCounter
) -> Counter[int]:
    """Return how many tokens the texts of results have, by the numbers of their steps."""
    found: Counter[int] = Counter()

    def count(number: int, text: str) -> str:
        found[number] += counter.count(text)
        return text

    assert compression.trajectory is not None  # noqa: S101 - something of it was shortened
    rewritten(Parsed(messages, compression.trajectory, compression.owners), count)
    return found
