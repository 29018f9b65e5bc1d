"""Everything an outside package brings: an environment, an agent and a method in one file.

In the environment a code is seen once and asked for later. Who forgets it has to look again.
"""

from typing import Any

from agora_lab.agents import Answer, Messages
from agora_lab.chats import text_of
from agora_lab.envs import Outcome, Start, World
from agora_lab.methods import MethodSettings, Shortened


class Remembering:
    def __init__(self) -> None:
        self._code = ""
        self._left = 0

    def reset(self, task: str) -> Start:
        self._code = task
        self._left = 3 + int(task) % 4
        return Start(task="Find the code and say it.", observation=f"Door {task}. Nothing yet.")

    def step(self, action: str) -> Outcome:
        if self._code == "113" and action == "wait":
            raise OSError("the door is stuck")
        if action == "open box":
            return self._seen(f"In the box: code C-{self._code} and dust, a lot of dust.")
        if action == "wait":
            self._left -= 1
            return self._seen(f"You wait by door {self._code}. {self._left} to go.")
        done = action == f"say C-{self._code}" and self._left <= 0
        return Outcome(
            observation="Right." if done else "Hm?",
            reward=float(done),
            terminated=done,
            valid=action.startswith("say "),
        )

    def _seen(self, text: str) -> Outcome:
        return Outcome(observation=text, reward=0.0, terminated=False, valid=True)

    def close(self) -> None:
        pass


TASKS = tuple(str(number) for number in range(100, 124))
WORLD = World(
    name="remembering",
    make=Remembering,
    instructions="You may: open box, wait, say CODE.",
    examples="",
    splits=lambda: {"train": ("1", "2"), "test": TASKS},
    extract=str.strip,
    canonical=str.strip,
    most_steps=15,
)


class Rememberer:
    """Acts on the prompt alone: looks when it sees no code, waits while there is to wait."""

    def answer(self, messages: Messages) -> Answer:
        text = "\n".join(text_of(message) for message in messages)
        newest = text_of(messages[-1])
        codes = [word for word in text.split() if word.startswith("C-")]
        if "Nothing yet" in newest:
            action = "open box"
        elif "In the box" in newest and len(messages) < 6:
            action = "wait"
        elif "0 to go" in newest or "In the box" in newest or "Hm?" in newest:
            action = f"say {codes[-1]}" if codes else "open box"
        else:
            action = "wait"
        return Answer(text=action, finish="stop")

    def close(self) -> None:
        pass


def rememberer(environment: str = "", **_: Any) -> Rememberer:
    return Rememberer()


class KeepNewest:
    """Sends the instructions, the task and the newest messages."""

    def __init__(self, settings: MethodSettings, *, messages: int = 2) -> None:
        self._messages = messages

    def shorten(self, messages: Messages) -> Shortened:
        newest = messages[max(2, len(messages) - self._messages) :]
        return Shortened(messages=[*messages[:2], *newest])
