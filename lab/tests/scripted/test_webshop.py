"""The reader for the shop, on pages that are made up here."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agora_lab.agents.base import prompt_text
from agora_lab.agents.scripted import reader
from agora_lab.agents.scripted.webshop import READER
from agora_lab.agents.scripted.webshop.wish import read_wish
from agora_lab.envs.data import DataError

WISH = (
    "Find me dust resistant lamps for living room with color: black, and size: large,"
    " and price lower than 40.00 dollars"
)
START = f"WebShop [SEP] Instruction: [SEP] {WISH} [SEP] Search"
TITLES = {
    "B0000LAMP1": "Tall Brass Lamp",
    "B0000LAMP2": "Desk Lamp",
    "B0000LAMP3": "Floor Lamp",
}
OPTIONS = {
    "B0000LAMP1": "color [SEP] black [SEP] white [SEP] size [SEP] small [SEP] large",
    "B0000LAMP2": "color [SEP] white [SEP] size [SEP] large",
    "B0000LAMP3": "color [SEP] blue",
}
HEAD = f"Instruction: [SEP] {WISH} [SEP] Back to Search"
RESULTS = f"{HEAD} [SEP] Page 1 (Total results: 3)" + "".join(
    f" [SEP] {asin} [SEP] {title} [SEP] $20.0" for asin, title in TITLES.items()
)
FEATURES = f"{HEAD} [SEP] < Prev [SEP] Dust resistant. [SEP] Made for every living room."
DULL = f"{HEAD} [SEP] < Prev [SEP] It gives light."


def item(asin: str) -> str:
    return (
        f"{HEAD} [SEP] < Prev [SEP] {OPTIONS[asin]} [SEP] {TITLES[asin]} [SEP] Price: $20.0 [SEP]"
        " Rating: N.A. [SEP] Description [SEP] Features [SEP] Reviews [SEP] Buy Now"
    )


def prompt(*steps: tuple[str, str], start: str = START) -> str:
    messages = [
        {"role": "system", "content": "You have at most 30 steps."},
        {"role": "user", "content": f"{WISH}\n\n{start}"},
    ]
    for action, observation in steps:
        messages.append({"role": "assistant", "content": action})
        messages.append({"role": "user", "content": observation})
    return prompt_text(messages)


SEARCHED = ("search[dust resistant lamps for living room black large]", RESULTS)
OPENED = ("click[B0000LAMP1]", item("B0000LAMP1"))
READ = ("click[Features]", FEATURES)
BACK = ("click[< Prev]", item("B0000LAMP1"))
LEFT = ("click[< Prev]", RESULTS)
SECOND = (("click[B0000LAMP2]", item("B0000LAMP2")), LEFT)
THIRD = (("click[B0000LAMP3]", item("B0000LAMP3")), LEFT)


def test_an_instruction_falls_into_its_parts() -> None:
    wish = read_wish(WISH)

    assert wish.attributes == ("dust resistant", "liv room")
    assert wish.options == ("black", "large")
    assert wish.limit == 40
    assert wish.query == "dust resistant lamps for living room black large"


def test_an_option_may_have_commas_and_colons_in_it() -> None:
    wish = read_wish(
        "Find me soft beds with classic fit with color: shade 1: oak, white, and size: 9"
    )

    assert wish.options == ("shade 1: oak, white", "9")
    assert wish.attributes[-1] == "classic fit"


def test_it_searches_for_what_is_asked() -> None:
    assert READER.act(prompt()) == "search[dust resistant lamps for living room black large]"


def test_it_opens_a_product_and_reads_about_it() -> None:
    assert READER.act(prompt(SEARCHED)) == "click[B0000LAMP1]"
    assert READER.act(prompt(SEARCHED, OPENED)) == "click[Features]"
    assert READER.act(prompt(SEARCHED, OPENED, READ)) == "click[< Prev]"


def test_it_compares_before_it_buys() -> None:
    seen = (SEARCHED, OPENED, READ, BACK)

    assert READER.act(prompt(*seen)) == "click[< Prev]"
    assert READER.act(prompt(*seen, LEFT)) == "click[B0000LAMP2]"


def test_it_goes_back_to_the_best_it_saw_chooses_and_buys() -> None:
    seen = (SEARCHED, OPENED, READ, BACK, LEFT, *SECOND, *THIRD)
    assert READER.act(prompt(*seen)) == "click[B0000LAMP1]"

    again = (*seen, OPENED)
    black = ("click[black]", item("B0000LAMP1"))
    large = ("click[large]", item("B0000LAMP1"))
    assert READER.act(prompt(*again)) == "click[black]"
    assert READER.act(prompt(*again, black)) == "click[large]"
    assert READER.act(prompt(*again, black, large)) == "click[Buy Now]"


def test_a_choice_whose_step_is_missing_is_made_again() -> None:
    seen = (SEARCHED, OPENED, READ, BACK, LEFT, *SECOND, *THIRD, OPENED)
    large = ("click[large]", item("B0000LAMP1"))

    assert READER.act(prompt(*seen, large)) == "click[black]"


def test_a_marker_tells_how_many_steps_are_gone() -> None:
    early = (SEARCHED[0], RESULTS + "\n[steps 2-5 elided]")
    assert READER.act(prompt(early, OPENED)) != "click[black]"

    late = (SEARCHED[0], RESULTS + "\n[... 24 step(s) elided ...]")
    assert READER.act(prompt(late, OPENED)) == "click[black]"


def test_who_cannot_tell_how_many_steps_are_gone_buys_what_is_open() -> None:
    assert READER.act(prompt(READ, BACK)) == "click[black]"


def test_when_it_is_too_late_to_go_back_it_buys_what_is_open() -> None:
    late = prompt(SEARCHED, OPENED, READ, BACK, LEFT, SECOND[0]).replace("at most 30", "at most 8")

    assert READER.act(late) == "click[large]"
    assert READER.act(late.replace("at most 8", "at most 7")) == "click[Buy Now]"


def test_details_that_were_read_and_elided_are_not_read_for_ever() -> None:
    gone = ("click[B0000LAMP1]", item("B0000LAMP1") + "\n\n[steps 3-5 elided]")

    assert READER.act(prompt(SEARCHED, gone, BACK)) == "click[Description]"
    assert READER.act(prompt(SEARCHED, gone, BACK, gone, BACK)) == "click[< Prev]"


def test_a_search_that_brought_nothing_is_not_repeated() -> None:
    nothing = f"{HEAD} [SEP] Page 1 (Total results: 0)"
    steps = ((SEARCHED[0], nothing), ("click[Back to Search]", START))

    assert READER.act(prompt(steps[0])) == "click[Back to Search]"
    assert READER.act(prompt(*steps)) != SEARCHED[0]


def test_a_product_above_the_limit_is_not_opened() -> None:
    dear = RESULTS.replace("Tall Brass Lamp [SEP] $20.0", "Tall Brass Lamp [SEP] $50.0 to $60.0")

    assert READER.act(prompt((SEARCHED[0], dear))) == "click[B0000LAMP2]"


pieces = st.sampled_from(
    [
        *("[SYSTEM]", "[USER]", "[ASSISTANT]", "\n", "\n\n", " [SEP] ", "click[", "search[", "]"),
        *("Instruction:", "Buy Now", "Back to Search", "< Prev", "Next >", "Search", "Purchased"),
        *("Page 1 (Total results: 9)", "B0000LAMP1", "$20.0", "Price: $", "Features", ": ", "with"),
        *(WISH, RESULTS, FEATURES, item("B0000LAMP2"), "[steps 2-1 elided]", "3 B0000LAMP2 -> "),
        *("[... 7 step(s) elided ...]", ", and price lower than 3.00 dollars", ", and "),
    ]
)


@given(st.lists(pieces | st.text(max_size=20), max_size=40).map("".join))
def test_it_answers_any_prompt_with_one_line_that_is_an_action(text: str) -> None:
    action = READER.act(text)

    assert action == READER.act(text)
    assert "\n" not in action
    assert action.startswith(("click[", "search["))
    assert action.endswith("]")


def test_on_the_data_it_buys_within_thirty_steps_and_mostly_well() -> None:
    pytest.importorskip("bm25s", reason="the search engine is in the extra `environments`")
    pytest.importorskip("Stemmer", reason="the stemmer is in the extra `environments`")
    pytest.importorskip("rapidfuzz", reason="comparing words is in the extra `environments`")
    from agora_lab.envs import world

    shop = world("webshop")
    try:
        env = shop.make()
    except DataError as error:
        pytest.skip(str(error))
    backbone = reader("webshop")
    rewards = []
    for task in shop.splits()["validation"][:15]:
        start = env.reset(task)
        messages = [
            {"role": "system", "content": shop.instructions},
            {"role": "user", "content": f"{start.task}\n\n{start.observation}"},
        ]
        for _ in range(shop.most_steps):
            action = shop.extract(backbone.answer(messages).text)
            outcome = env.step(action)
            assert outcome.valid
            messages.append({"role": "assistant", "content": action})
            messages.append({"role": "user", "content": outcome.observation})
            if outcome.terminated:
                break
        assert outcome.terminated
        rewards.append(outcome.reward)

    assert sum(rewards) / len(rewards) >= 0.6
