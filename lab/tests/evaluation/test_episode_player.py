"""A backbone that is held to what the environment allows."""

from dataclasses import replace

import pytest
from lab.tests.evaluation.counting import Counting, make_player

from agora_lab.backbones import Answer, Messages
from agora_lab.environments.base import Allowed


class Choosing(Counting):
    def allowed(self) -> Allowed:
        return Allowed(actions=("one more",))


class Obedient:
    """Says the grammar's first line, as a server that is held to it would."""

    def answer(self, messages: Messages) -> Answer:
        raise AssertionError(f"asked without a grammar: {messages}")

    def choose(self, messages: Messages, grammar: str) -> Answer:
        assert messages
        return Answer(text=grammar.partition('"')[2].partition('"')[0])


def test_a_backbone_that_is_held_is_given_what_the_environment_allows() -> None:
    player = replace(make_player(), environment=Choosing(), backbone=Obedient(), held=True)
    episode, _ = player.play("2")
    assert [move.action for move in episode.moves] == ["one more", "one more"]


def test_an_environment_that_cannot_say_what_it_allows_is_not_played_held() -> None:
    player = replace(make_player(), backbone=Obedient(), held=True)
    with pytest.raises(TypeError, match="cannot list its allowed actions"):
        player.play("2")
