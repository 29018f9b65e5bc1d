"""What an experiment adds to a request: finding its arm, and counting it when it is over.

    python -m benchmarks.experiment_time

Bodies of growing conversations, the system text as long as coding agents have it. Both parts run on
the gateway's event loop; writing and judging happen in a thread, once in five seconds.
"""

import json
import statistics
import tempfile
import time
from pathlib import Path

from agora.experiment.assignment import Draw
from agora.experiment.trial import Terms, Trial
from agora.gateway.config import Experiment
from agora.gateway.forwarding.arms import note_call, take_seat
from agora.gateway.watching.exchange import Exchange
from harness.gateway.histories import chat

_ROUNDS = 300


def body_of(kilobytes: int) -> bytes:
    """Return a body of about so many kilobytes, a system text of 20 of them."""
    said = chat(max(1, kilobytes // 2), 2_000)
    said["messages"].insert(0, {"role": "system", "content": "You are careful. " * 1_200})
    return json.dumps(said).encode()


def main() -> None:
    """Print the times of each size of body."""
    exchange = Exchange(route="chat", tenant="t", status=200, dollars=0.01, fresh=100, output=9)
    with tempfile.TemporaryDirectory() as folder:
        terms = Terms(name="n", folder=Path(folder), share=0.5, idle_seconds=9, rules=())
        trial = Trial(terms, Draw("n", b"secret"))
        for kilobytes in (10, 100, 1_000):
            body, times = body_of(kilobytes), []
            headers = [(b"user-agent", b"agent"), (b"content-type", b"application/json")] * 6
            for _ in range(_ROUNDS):
                began = time.perf_counter()
                seat = take_seat(trial, Experiment(), "t", "m", headers, body, "messages")
                assert seat is not None
                note_call(trial, seat, exchange, affected=True)
                times.append((time.perf_counter() - began) * 1e3)
            row = {
                "body_kb": len(body) >> 10,
                "median_ms": round(statistics.median(times), 4),
                "p99_ms": round(statistics.quantiles(times, n=100)[98], 4),
            }
            print(json.dumps(row), flush=True)
        trial.close()


if __name__ == "__main__":
    main()
