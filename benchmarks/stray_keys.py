"""Send made-up keys in many places of a request, and count those that reach a wrong upstream.

    python -m benchmarks.stray_keys --requests 100000      a real Envoy, as `agora serve` runs it
    python -m benchmarks.stray_keys --through pool         a real Envoy, deploy/envoy/llm-d.yaml
    python -m benchmarks.stray_keys --out FILE             the figures into a file, too

`harness.gateway.stray_keys` draws the requests. The exit code is 1 if a key was astray.
"""

import argparse
import json
import time
from pathlib import Path

from harness.gateway.stray_keys import through_a_pool, through_envoy

WAYS = {"envoy": through_envoy, "pool": through_a_pool}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--through", choices=WAYS, default="envoy")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    began = time.monotonic()
    figures = WAYS[arguments.through](arguments.requests, arguments.seed)
    figures["seconds"] = round(time.monotonic() - began, 1)
    text = json.dumps({"through": arguments.through, **figures}, indent=1)
    print(text)
    if arguments.out:
        arguments.out.write_text(text + "\n", encoding="utf-8")
    if figures["keys_at_an_upstream_that_is_not_theirs"]:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
