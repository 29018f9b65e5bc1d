"""Which requests at the desk were lost in a run, and whether what they needed was still there.

    python -m lab.benchmarks.long_losses RUN [--method agora_forms_worth] [--prompts]

Each episode is gone through once more at the desk, which knows what was asked for. For a request
that was not done it prints what should have been called, the calls that were made for it, and for
each value that it needed where it stood when it was given up or done wrongly: in the prompt that
was sent, in the whole history only (compression took it away), or in neither (an earlier request
had failed, or it was never looked up).
"""

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from agora_lab.backbones import prompt_text
from agora_lab.environments.desk import Desk
from agora_lab.environments.desk.script import Wish
from agora_lab.episodes.episode import Episode
from agora_lab.episodes.run import read_episodes
from agora_lab.labelling.needs import stands_in

PLACES = ("sent", "elided", "never")


@dataclass(frozen=True, slots=True)
class Loss:
    """A request that was not done."""

    task: str
    method: str
    request: int
    step: int
    """The step at which the customer was told, from 1."""
    wish: Wish
    calls: tuple[str, ...]
    stood: dict[str, str]
    """Where each value that it needed stood at that step."""
    prompt: str

    @property
    def cause(self) -> str:
        """The worst place of a value: `never` before `elided` before `sent`."""
        return max(self.stood.values(), key=PLACES.index, default="sent")


def losses(episode: Episode, desk: Desk) -> Iterator[Loss]:
    """Yield the requests of an episode that were not done."""
    desk.reset(episode.task)
    told: dict[int, int] = {}
    for at, move in enumerate(episode.moves):
        if not move.called:
            told[desk.request] = at
        desk.step(move.action)
    done = desk.done()
    first = 0
    for request, wish in enumerate(desk.script.wishes):
        at = told.get(request, len(episode.moves) - 1)
        calls = tuple(move.action for move in episode.moves[first:at] if move.called)
        first = at + 1
        if wish.deed is None or request in done:
            continue
        values = [value for value in wish.deed[1].values() if len(str(value)) > 3]
        values += [need.value for need in wish.needs]
        prompt = prompt_text(episode.shown(at))
        whole = prompt_text(episode.conversation(at))
        stood = {
            value: "sent" if stands_in(value, prompt) else "elided" if value in whole else "never"
            for value in dict.fromkeys(map(str, values))
        }
        yield Loss(episode.task, episode.cell.method, request, at + 1, wish, calls, stood, prompt)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the losses of a run, and how many there are of each kind and cause."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--method", default="agora_forms_worth")
    parser.add_argument("--prompts", type=Path, help="folder to write the prompts of losses to")
    asked = parser.parse_args(arguments)
    desk = Desk()
    counts: Counter[tuple[str, str]] = Counter()
    episodes = 0
    for episode in read_episodes(asked.run):
        if episode.cell.method != asked.method or episode.cell.environment != "desk":
            continue
        episodes += 1
        for loss in losses(episode, desk):
            counts[loss.wish.kind, loss.cause] += 1
            print(f"\n{loss.task} request {loss.request + 1}, step {loss.step}: {loss.wish.text}")
            name, given = loss.wish.deed or ("", {})
            print(f"  wanted {name} {json.dumps(given)}")
            print("\n".join(f"  called {call}" for call in loss.calls))
            print(f"  stood {json.dumps(loss.stood)}")
            if asked.prompts:
                asked.prompts.mkdir(parents=True, exist_ok=True)
                path = asked.prompts / f"{loss.task}-{loss.request + 1}.txt"
                path.write_text(loss.prompt, encoding="utf-8")
    desk.close()
    print(f"\n{asked.method}: {episodes} episodes, {sum(counts.values())} requests lost")
    for (kind, cause), count in counts.most_common():
        print(f"{count:4} {kind}: {cause}")


if __name__ == "__main__":
    main()
