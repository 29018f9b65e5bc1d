from collections.abc import Mapping

import pytest
from lab.tests.evaluation.test_report import row

from agora_lab.evaluation.results import Results, results
from agora_lab.evaluation.rows import Material
from agora_lab.evaluation.verdict import verdict

WORLDS = ("hill", "plain")
TASKS = 12


def played(rewards: Mapping[str, float], *, edited: str = "", backbone: str = "reader") -> Results:
    """Return what came of methods, by name with their mean reward; those in `edited` edited."""
    rows = [
        row(
            environment=world,
            backbone=backbone,
            method=method,
            task=str(task),
            trajectory=str(task),
            reward=float(task < TASKS * reward),
            steps=4,
            changed=2 * (method in edited.split()),
            tokens_sent=10 if method in edited.split() else 20,
            tokens_whole=20,
            input_tokens=10 if method in edited.split() else 20,
            bills={"sheet": 0.5 if method in edited.split() else 1.0},
        )
        for method, reward in rewards.items()
        for world in WORLDS
        for task in range(TASKS)
    ]
    return results(Material(rows=tuple(rows), runs=(), sheets={"sheet": {}}))


def said(found: Results) -> dict[str, str]:
    return dict(verdict(found, "sheet").points)


def test_the_verdict_says_what_was_played_and_how_a_default_that_edits_nothing_compares() -> None:
    rewards = {"none": 1.0, "floor_matched": 0.75, "agora_every_call": 0.5, "agora": 1.0}
    found = played(rewards, edited="floor_matched agora_every_call")

    told = said(found)

    headline = "The default edited nothing here; editing at every call lost 50 % of the reward"
    assert verdict(found).headline == headline
    assert told["Played"].startswith("96 episodes: 4 methods on 24 tasks of hill and plain, by")
    assert (
        "changed none of its 96 calls, so reward and bill are the same"
        in (told["Against sending everything"])
    )
    assert "edited 50 % of the calls and kept 50 % [" in told["Against sending everything"]
    assert "at 0.50 [0.50, 0.50] times the bill (sheet)" in told["Against sending everything"]
    assert "`agora_every_call` kept 50 % [" in told["Against the newest steps"]
    assert "(`floor_matched`) kept 75 % [" in told["Against the newest steps"]
    assert "No difference beyond chance in hill and plain" in told["Against the newest steps"]


@pytest.mark.parametrize(
    ("ours", "theirs", "told"),
    [(1.0, 0.0, "ahead in hill and plain"), (0.0, 1.0, "behind in hill and plain")],
)
def test_a_default_that_edits_is_itself_compared_with_the_newest_steps(
    ours: float, theirs: float, told: str
) -> None:
    rewards = {"none": 1.0, "floor_matched": theirs, "agora_every_call": 0.5, "agora": ours}
    found = played(rewards, edited="floor_matched agora_every_call agora")

    points = said(found)

    assert verdict(found).headline.startswith(f"The default kept {100 * ours:.0f} % of the reward")
    assert points["Against the newest steps"].startswith("`agora` kept")
    assert told in points["Against the newest steps"]
    assert "more than the other" not in points["Against the newest steps"]


def test_what_was_not_played_is_said_to_be_missing() -> None:
    rewards = {"none": 1.0, "peer": 0.5, "other_peer": 0.75, "idle": 1.0}
    found = played(rewards, edited="peer other_peer")

    assert verdict(found).headline.startswith("Of 2 methods that edited, the best kept 75 % of the")
    assert said(found)["Our default"].startswith("Not played (`agora`)")
    assert "`other_peer` kept the most reward, 75 %" in said(found)["Of all that edited"]
    assert said(found)["Of all that edited"].endswith("Without one edit: `idle`.")


def test_a_default_that_edits_nothing_is_not_compared_with_steps_that_were_left_out() -> None:
    found = played({"none": 1.0, "floor_matched": 0.5, "agora": 1.0}, edited="floor_matched")

    told = said(found)["Against the newest steps"]

    assert told.startswith("They (`floor_matched`) edited 50 % of")
    assert told.endswith("; the default edited nothing.")


def test_a_run_without_episodes_or_without_the_baseline_still_has_a_verdict() -> None:
    nothing = results(Material(rows=(), runs=(), sheets={}))
    alone = played({"peer": 0.5}, edited="peer")

    assert verdict(nothing).headline == "No episode was played"
    assert verdict(alone).headline == "Played, with nothing to compare it with"
