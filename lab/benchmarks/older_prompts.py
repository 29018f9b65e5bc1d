"""What the default of an older checkout sends at the anchors of a run of the judge.

    git worktree add ../older 4a24e62
    python -m lab.benchmarks.older_prompts RUN ../older PROMPTS --model MODEL
    agora lab fidelity run --out RUN --prompts-of PROMPTS --methods forms_worth --model MODEL ...

The older checkout only shortens; anchors, token counts and the size asked for are those of RUN, as
for every other method. It has to be 0.2.0 or later. The second command judges what it sent.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.progress import track
from transformers import AutoTokenizer

from agora_lab.fidelity.anchors import Anchor
from agora_lab.fidelity.making import PromptMaker
from agora_lab.fidelity.queue import queue
from agora_lab.fidelity.records import ANCHORS, Prompts, read_anchors
from agora_lab.fidelity.rendering import ModelTokens, Rendering
from agora_lab.fidelity.rows import Row
from agora_lab.methods import Shortened

_THEIRS = """
import json, sys
from agora_lab.fidelity.rendering import ModelTokens
from agora_lab.methods import MethodSettings, method
from transformers import AutoTokenizer
counter = ModelTokens.of(AutoTokenizer.from_pretrained(sys.argv[2]))
for line in sys.stdin:
    asked = json.loads(line)
    options = {"share": asked["share"], "observations": asked["observations"], "counter": counter}
    shortened = method(sys.argv[1], MethodSettings(options=options)).shorten(asked["messages"])
    print(json.dumps(list(shortened.messages)), flush=True)
"""
"""What runs in the older checkout: a line for each prompt that is asked for."""


@dataclass(frozen=True, slots=True)
class Older:
    """The default of an older checkout, as a method with a share of its own."""

    process: "subprocess.Popen[str]"
    share: float
    observations: str | None

    def shorten(self, messages: Sequence[Mapping[str, Any]]) -> Shortened:
        """Return what it would send."""
        asked = {"share": self.share, "observations": self.observations, "messages": messages}
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            sys.exit("the older checkout failed; what it says stands above")
        return Shortened(messages=json.loads(answer))


def started(checkout: Path, name: str, model: Path) -> "subprocess.Popen[str]":
    """Return the process in which the older checkout shortens prompts."""
    folders = (checkout / "src", checkout / "lab" / "src")
    return subprocess.Popen(
        [sys.executable, "-c", _THEIRS, name, str(model)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(str(one.resolve()) for one in folders)},
    )


def anchors(run: Path, rendering: Rendering) -> list[Anchor]:
    """Return the anchors of a run that passed."""
    passed = [one for one in read_anchors(run) if one.passed]
    keys, most = {one.anchor for one in passed}, max(one.tokens_whole for one in passed)
    return [
        anchor
        for source, half in sorted({(one.source, one.half) for one in passed})
        for anchor in queue(source, half, rendering, (most, most), allowed=keys)
    ]


def main() -> None:
    """Write the prompts, and print at how many anchors there are any."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("run", type=Path, help="a run of the judge")
    options.add_argument("checkout", type=Path, help="the older checkout")
    options.add_argument("out", type=Path, help="the folder for its prompts")
    options.add_argument("--model", type=Path, required=True, help="the judge's own folder")
    options.add_argument("--method", default="agora_forms_worth", help="the lab's name for it")
    options.add_argument("--label", default="forms_worth", help="its name in the run")
    options.add_argument("--share", type=float, default=0.25, help="of what lies outside the floor")
    asked = options.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(asked.model)
    rendering, row = Rendering(tokenizer), Row(asked.label, asked.share)
    process = started(asked.checkout, asked.method, asked.model)

    def make(_row: Row, *, observations: str | None, share: float | None, **_others: Any) -> Older:
        return Older(process, asked.share if share is None else share, observations)

    theirs = PromptMaker(rendering, ModelTokens.of(tokenizer), make=make)
    own = PromptMaker(rendering, ModelTokens.of(tokenizer))
    prompts = Prompts(asked.out)
    shutil.copy(asked.run / ANCHORS, asked.out / ANCHORS)
    found = anchors(asked.run, rendering)
    for anchor in track(found):
        floor, _ = own.fitted(anchor, Row("floor", None), (0, 0))
        messages, error = theirs.fitted(anchor, row, own.sizes(anchor))
        if error:
            sys.exit(f"{anchor.key}: {error}")
        prompts.add(
            anchor.key,
            whole=anchor.messages,
            tools=anchor.recorded.tools,
            target="",
            sent={"floor": floor, row.label: messages},
        )
    process.terminate()
    print(f"{row.label}: {len(found)} prompts in {asked.out}")


if __name__ == "__main__":
    main()
