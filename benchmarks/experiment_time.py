"""What an experiment adds to a request: finding its arm, and counting it when it is over.

    python -m benchmarks.experiment_time

Bodies of growing conversations, the system text as long as coding agents have it, in CPU time: a
busy machine says little else. Both parts run on the gateway's event loop; writing and judging
happen in a thread, once in five seconds.
"""

import json
import statistics
import tempfile
import time
from itertools import product
from pathlib import Path

from agora.experiment.assignment import Draw
from agora.experiment.trial import Terms, Trial
from agora.gateway.config import Experiment
from agora.gateway.forwarding.arms import note_call, take_seat
from agora.gateway.watching.exchange import Exchange
from harness.gateway.histories import chat

_ROUNDS = 300
_LINE = 'Notes on "load_table": it opens each part in turn and joins them by name.\n'


def body_of(kilobytes: int) -> bytes:
    """Return a body of about so many kilobytes, 20 of them system text, 40 the user's."""
    said = chat(max(1, kilobytes // 2), 2_000)
    said["messages"].insert(0, {"role": "system", "content": "You are careful.\n" * 1_200})
    said["messages"][1] = {"role": "user", "content": _LINE * 550}
    return json.dumps(said).encode()


def first_of(kilobytes: int) -> bytes:
    """Return a first call whose user says so much."""
    user = {"role": "user", "content": _LINE * (kilobytes * 13)}
    return json.dumps({"model": "m", "messages": [user]}).encode()


def main() -> None:
    """Print the times of each size of body."""
    exchange = Exchange(route="chat", tenant="t", status=200, dollars=0.01, fresh=100, output=9)
    with tempfile.TemporaryDirectory() as folder:
        terms = Terms(name="n", folder=Path(folder), share=0.5, idle_seconds=9, rules=())
        trial = Trial(terms, Draw("n", b"secret"))
        for first, kilobytes in product((True, False), (10, 100, 1_000)):
            body, times = first_of(kilobytes) if first else body_of(kilobytes), []
            headers = [(b"user-agent", b"agent"), (b"content-type", b"application/json")] * 6
            for _ in range(_ROUNDS):
                began = time.thread_time()
                seat = take_seat(trial, Experiment(), "t", "m", headers, body, "messages")
                assert seat is not None
                note_call(trial, seat, exchange, affected=True)
                times.append((time.thread_time() - began) * 1e3)
            row: dict[str, float | bool] = {
                "first_call": first,
                "body_kb": len(body) >> 10,
                "median_ms": round(statistics.median(times), 4),
                "p99_ms": round(statistics.quantiles(times, n=100)[98], 4),
            }
            print(json.dumps(row), flush=True)
        trial.close()


if __name__ == "__main__":
    main()
