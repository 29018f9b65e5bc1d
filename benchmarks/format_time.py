"""Measure the CPU time of parsing and checking messages, against reading the same JSON.

    python -m benchmarks.format_time --megabytes 10

For each format a made-up conversation of results of 5 kB: the ratio of parsing to `json.loads`, and
that of checking. A counter without work shows what reading costs apart from counting tokens.
"""

import argparse
import json
import random
from functools import partial

from agora import EstimatedTokens
from agora.formats import broken_rules, formats, make_request, parse
from harness.times import MIB, in_turns, prose

RESULT_CHARACTERS = 5_000


class Uncounted:
    """Counts no tokens."""

    def count(self, text: str) -> int:  # noqa: ARG002
        """Return 0."""
        return 0


def main() -> None:
    """Print a row for each format."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--megabytes", type=float, default=10)
    options.add_argument("--times", type=int, default=5)
    given = options.parse_args()
    chance = random.Random(1)
    print(f"{'format':12}{'MB':>6}{'loads ms':>10}{'parse':>8}{'uncounted':>11}{'check':>8}")
    for format in formats():
        if format.fields is None:
            continue
        messages = [format.user_message("Please rebook EHGLP3 to the day after.")]
        for number in range(int(given.megabytes * MIB / RESULT_CHARACTERS)):
            arguments = {"page": number, "user": "mia_li_3668"}
            text = prose(chance, RESULT_CHARACTERS)
            messages += format.step_messages(f"call_{number}", "get_page", arguments, text)
        raw = json.dumps(messages)
        request = make_request(messages, format=format.name)
        loads, parsing, reading, checking = in_turns(
            given.times,
            partial(json.loads, raw),
            partial(parse, request, EstimatedTokens()),
            partial(parse, request, Uncounted()),
            partial(broken_rules, request, strict=True),
        )
        row = f"{format.name:12}{len(raw) / MIB:6.1f}{1_000 * loads:10.1f}"
        print(f"{row}{parsing / loads:8.2f}{reading / loads:11.2f}{checking / loads:8.2f}")


if __name__ == "__main__":
    main()
