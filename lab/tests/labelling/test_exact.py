from lab.tests.labelling.making import episode

from agora_lab.backbones import Answer, Messages, prompt_text
from agora_lab.labelling.cases import from_episode
from agora_lab.labelling.exact import acts, by_distance, drop_one, exact
from agora_lab.labelling.plan import PlanSettings


class NeedsTheKey:
    """Opens the door once the key was seen, and searches otherwise."""

    def answer(self, messages: Messages) -> Answer:
        return Answer(text=" open" if "a key" in prompt_text(messages) else "search")


ACT = acts(NeedsTheKey(), canonical=str.strip, extract=str.strip)


def test_only_the_step_that_brought_what_is_needed_changes_the_action() -> None:
    played = episode(["dust", "a key", "dust", "dust", "dust"])

    found = list(drop_one([played], ACT))

    assert {(one.anchor, one.candidate) for one in found if one.changed} == {(4, 2), (5, 2)}
    assert by_distance(found) == {"1": (0, 2), "2": (1, 2), "3-4": (1, 3)}


def test_what_has_to_be_acted_on_stays() -> None:
    played = episode(["dust", "dust", "a key", "dust"])

    assert not any(one.changed for one in drop_one([played], ACT))


def test_labels_are_of_the_steps_outside_the_floor_alone() -> None:
    case = from_episode(episode(["dust", "a key", "dust", "dust", "dust"], environment="x"))
    assert case is not None

    found = list(exact(case, ACT, PlanSettings(backbone="reader")))

    assert [(one.anchor, one.candidate, one.label) for one in found] == [
        (4, 1, 0.0),
        (5, 1, 0.0),
        (5, 2, 1.0),
    ]
    assert {(one.kind, one.source, one.task) for one in found} == {("exact", "x", "t")}


def test_fewer_anchors_are_drawn_the_same_way_each_time() -> None:
    case = from_episode(episode(["dust"] * 20))
    assert case is not None
    some = PlanSettings(backbone="reader", anchors=3, seed=1)

    first, again = (list(exact(case, ACT, some)) for _ in range(2))

    assert first == again
    assert len({one.anchor for one in first}) == 3
