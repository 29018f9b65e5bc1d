"""Makes lessons of played episodes: at each history the world's reader is asked what it would do.

Episodes of the reader itself show how a task is done; those of a student show the histories that
it gets itself into, which is where it has to be told (DAgger), up to the first action that the
world did not understand. Whole histories share one sequence; a shortened prompt is a lesson of its
own.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agora_lab.backbones import Backbone
from agora_lab.backbones.student import StudentFormat
from agora_lab.environments import World
from agora_lab.episodes.episode import Episode
from agora_lab.methods import Method
from agora_lab.teaching.lessons import Lesson, Said, Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Lot:
    """Which prompts of an episode are shortened, and by what."""

    methods: Mapping[str, Method]
    share: float
    """The share of an episode's steps that become a lesson of their own."""
    seed: int = 0

    def draw(self, episode: Episode) -> Iterator[tuple[int, str]]:
        """Yield a step and the name of a method, the same ones whenever asked."""
        chance = random.Random(f"{self.seed}|{episode.key}")
        names = sorted(self.methods)
        for move in range(len(episode.moves)):
            name = chance.choice(names)
            if chance.random() < self.share:
                yield move, name


@dataclass(frozen=True, slots=True, kw_only=True)
class Teacher:
    """Turns episodes of one world into lessons."""

    world: World
    reader: Backbone
    split: str
    by_reader: bool
    """Whether the episodes are the reader's own."""
    lot: Lot | None = None

    def lessons(self, episode: Episode) -> Iterator[Lesson]:
        """Yield the lessons of an episode."""
        if self.lot is None:
            yield from self._whole(episode)
            return
        for move, name in self.lot.draw(episode):
            whole = episode.conversation(move)
            sent = self.lot.methods[name].shorten(whole).messages
            # What nothing was left out of is in the lessons of whole episodes.
            if list(sent) != whole:
                yield self._single(episode, move, sent, name)

    def _whole(self, episode: Episode) -> Iterator[Lesson]:
        kind = "reader" if self.by_reader else "student"
        shared: list[Target] = []
        for move in range(len(episode.moves)):
            shown = episode.shown(move)
            whole = episode.conversation(move)
            if shown == whole:
                shared.append(Target(at=len(whole), text=self._asked(shown)))
            else:
                yield self._single(episode, move, shown, episode.cell.method)
            if not self.by_reader and not episode.moves[move].valid:
                # A reader never names what is not there, and after somebody who did it is no
                # guide: it looks closer at the place that does not exist (docs/log.md).
                break
        if shared:
            # What came back last is no part of any prompt.
            messages = episode.conversation(len(episode.moves))[: shared[-1].at + 1]
            yield Lesson(
                episode=episode.key,
                world=self.world.name,
                split=self.split,
                kind=kind,
                messages=self._said(messages),
                targets=tuple(shared),
            )

    def _single(
        self, episode: Episode, move: int, shown: Sequence[Mapping[str, Any]], method: str
    ) -> Lesson:
        return Lesson(
            episode=episode.key,
            step=move,
            world=self.world.name,
            split=self.split,
            kind=method,
            messages=self._said(shown),
            targets=(Target(at=len(shown), text=self._asked(shown)),),
        )

    def _asked(self, messages: Sequence[Mapping[str, Any]]) -> str:
        return self.reader.answer(messages).text

    def _said(self, messages: Sequence[Mapping[str, Any]]) -> tuple[Said, ...]:
        written = StudentFormat(self.world.name, self.world.instructions).said(messages)
        return tuple(Said(**one) for one in written)
