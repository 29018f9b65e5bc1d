import json

from tests.release.first_minutes import FIGURES, MARK, MOST_MINUTES, PAGE, sentence


def test_the_quickstart_says_what_was_measured_and_each_first_thing_took_at_most_five_minutes() -> (
    None
):
    figures = json.loads(FIGURES.read_text(encoding="utf-8"))

    assert f"{MARK}\n{sentence(figures)}\n" in PAGE.read_text(encoding="utf-8")
    assert set(figures["minutes"]) == {
        "first pages",
        "first compressed call",
        "first replay page",
        "first wrapped agent",
        "first gateway request",
    }
    assert max(figures["minutes"].values()) <= MOST_MINUTES
