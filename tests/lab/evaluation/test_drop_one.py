from agora.lab.backbones import Answer, Messages, prompt_text
from agora.lab.episodes.episode import Cell, Episode, Move
from agora.lab.evaluation.drop_one import by_distance, drop_one


class NeedsTheKey:
    """Opens the door once the key was seen, and searches otherwise."""

    def answer(self, messages: Messages) -> Answer:
        return Answer(text="open" if "a key" in prompt_text(messages) else "search")


def make_episode(observations: list[str]) -> Episode:
    moves = tuple(
        Move(
            sent=(),
            answer="look",
            action="look",
            observation=observation,
            reward=0.0,
            valid=True,
            tokens_whole=1,
            tokens_sent=1,
        )
        for observation in observations
    )
    cell = Cell(environment="x", backbone="reader", method="none")
    return Episode(cell=cell, task="t", system="s", opening="o", moves=moves, ended="steps")


def test_only_the_step_that_brought_what_is_needed_changes_the_action() -> None:
    episode = make_episode(["dust", "a key", "dust", "dust", "dust"])

    found = list(drop_one([episode], NeedsTheKey(), canonical=str.strip, extract=str.strip))

    assert {(one.anchor, one.candidate) for one in found if one.changed} == {(4, 2), (5, 2)}
    assert by_distance(found) == {"1": (0, 2), "2": (1, 2), "3-4": (1, 3)}


def test_what_has_to_be_acted_on_stays() -> None:
    episode = make_episode(["dust", "dust", "a key", "dust"])

    found = list(drop_one([episode], NeedsTheKey(), canonical=str.strip, extract=str.strip))

    assert not any(one.changed for one in found)
