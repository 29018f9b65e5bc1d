"""Runs one peer in its own environment: requests and answers are lines of JSON.

It is started with the path of a file and that peer's options. The file has
`prepare(options)`, which returns a function from a request to an answer. This file
imports only the standard library.
"""

import json
import os
import runpy
import sys
from pathlib import Path


def main() -> None:
    """Answer until there are no more requests."""
    # A peer's own output must not mix with the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    requests = os.fdopen(os.dup(0), encoding="utf-8")

    def say(answer: dict[str, object]) -> None:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    file, options = Path(sys.argv[1]), json.loads(sys.argv[2])
    try:
        answer = runpy.run_path(str(file))["prepare"](options)
    except Exception as error:
        say({"skip": f"{file.stem} could not be started: {type(error).__name__}: {error}"[:500]})
        return
    say({"ready": True})
    for line in requests:
        request = json.loads(line)
        try:
            say({"id": request["id"], **answer(request)})
        except Exception as error:
            say({"id": request["id"], "error": f"{type(error).__name__}: {error}"[:500]})


if __name__ == "__main__":
    main()
