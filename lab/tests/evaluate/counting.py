"""A world in which counting to the task's number is all there is to do."""

import sys
import time
from pathlib import Path

from agora_lab.agents import Answer, Messages, content_text
from agora_lab.envs import Outcome, Start, World
from agora_lab.episodes.episode import Cell
from agora_lab.episodes.run import Run
from agora_lab.evaluate.episode_player import Player
from agora_lab.methods.base import Shortened


class Counting:
    def __init__(self, pause: float = 0.0) -> None:
        self._pause = pause
        self._target = self._at = 0

    def reset(self, task: str) -> Start:
        self._target, self._at = int(task), 0
        return Start(task=f"count to {task}", observation="0")

    def step(self, action: str) -> Outcome:
        time.sleep(self._pause)
        valid = action == "one more"
        self._at += valid
        done = self._at >= self._target
        return Outcome(observation=str(self._at), reward=float(done), terminated=done, valid=valid)

    def close(self) -> None:
        pass


WORLD = World(
    name="counting",
    make=Counting,
    instructions="Say: one more",
    examples="An example: one more",
    splits=lambda: {"test": ("1", "2", "3")},
    extract=str.strip,
    canonical=str.strip,
    most_steps=5,
)


class Counter:
    """A backbone that counts on from the number it is shown last."""

    def answer(self, messages: Messages) -> Answer:
        assert content_text(messages[-1]["content"]).split()[-1].isdigit()
        return Answer(text="one more", input_tokens=len(messages))


class KeepNewest:
    def shorten(self, messages: Messages) -> Shortened:
        return Shortened(messages=[*messages[:1], *messages[-1:]])


class KeepAll:
    def shorten(self, messages: Messages) -> Shortened:
        return Shortened(messages=messages)


def make_player(*, pause: float = 0.0) -> Player:
    return Player(
        cell=Cell(environment="counting", backbone="counter", method="newest"),
        world=WORLD,
        environment=Counting(pause),
        backbone=Counter(),
        method=KeepNewest(),
    )


def main(folder: str, tasks: str) -> None:
    """Play so many tasks slowly enough to be killed on the way."""
    player = make_player(pause=0.002)
    with Run(Path(folder), {"tasks": tasks}) as run:
        for number in range(int(tasks)):
            task = str(number % 5 + 1)
            player = Player(
                cell=Cell(environment="counting", backbone="counter", method="newest", seed=number),
                world=player.world,
                environment=player.environment,
                backbone=player.backbone,
                method=player.method,
            )
            if player.cell.key(task) not in run:
                run.add(*player.play(task))


if __name__ == "__main__":
    main(*sys.argv[1:])
