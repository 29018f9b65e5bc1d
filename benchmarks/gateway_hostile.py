"""Made-up requests against a real gateway: where keys arrive, and whether it still answers.

    python -m benchmarks.gateway_hostile                     10,000 requests
    python -m benchmarks.gateway_hostile --count 500         fewer
    python -m benchmarks.gateway_hostile --out FILE          the figures into a file, too

What is sent and what is counted: `harness.gateway.hostile`.
"""

import argparse
import json
from pathlib import Path

from harness.gateway.hostile import AT_ONCE, measure


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=600.0, help="stop then at the latest")
    parser.add_argument("--seed", type=int, default=17)
    parser.add_argument("--at-once", type=int, default=AT_ONCE, help="requests at a time")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    figures = measure(arguments.count, arguments.seconds, arguments.seed, arguments.at_once)
    text = json.dumps(figures, indent=1)
    print(text)
    if arguments.out:
        arguments.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
