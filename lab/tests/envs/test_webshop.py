"""The shop: its products are made up here, except where a test says that it reads the data."""

import json
import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("bm25s", reason="the search engine is in the extra `environments`")
pytest.importorskip("Stemmer", reason="the stemmer is in the extra `environments`")
pytest.importorskip("rapidfuzz", reason="the comparison of words is in the extra `environments`")

from agora_lab.envs.data import DataError
from agora_lab.envs.webshop import WORLD, Catalogue, Search, Shop, canonical, extract
from agora_lab.envs.webshop.products import (
    NO_LIMIT,
    Goal,
    made_goals,
    product_of,
    read_catalogue,
)
from agora_lab.envs.webshop.reward import reward, title_match, type_reward
from agora_lab.envs.webshop.search import analyse


def line(asin: str, title: str, **given: Any) -> dict[str, Any]:
    """A line of the documents, as the data has them."""
    product = {
        "Title": title,
        "Description": "",
        "BulletPoints": [],
        "pricing": [20.0],
        "Price": "$20.0",
        "Rating": "N.A.",
        "options": {},
        "Attributes": [],
        "product_category": "House › Light › Lamps",
        "query": "lamps",
    } | given
    said = [title, product["Description"], *product["BulletPoints"]]
    return {"id": asin, "contents": " ".join(said).lower(), "product": product}


LAMP = line(
    "B0000LAMP1",
    "Tall Brass Reading Lamp",
    Description="Stands  in any\nliving room.",
    BulletPoints=["Easy to clean, dust resistant shade.", "Long cord."],
    options={"color": ["black", "polished brass"], "size": ["small", "large"]},
    Attributes=["dust resistant", "living room"],
)
LANTERN = line("B000LANTE2", "Paper Lantern", pricing=[9.5], Price="$9.5", query="lanterns")
KETTLE = line(
    "B000KETTL3",
    "Steel Kettle",
    product_category="Kitchen › Kettles",
    query="kettles",
    pricing=[990.5],
    Price="$990.5",
)
WANTED = {
    "instruction": "Find me dust resistant lamps for living room",
    "instruction_attributes": ["dust resistant", "living room"],
}


def shop(*more: Mapping[str, Any]) -> Shop:
    products = {one.asin: one for one in map(product_of, (LAMP, LANTERN, KETTLE, *more))}
    goals = {goal.name: goal for goal in made_goals(products["B0000LAMP1"], WANTED)}
    search = Search({asin: product.document for asin, product in products.items()})
    return Shop(Catalogue(products, goals), search)


def a_goal(**given: Any) -> Goal:
    return replace(next(made_goals(product_of(LAMP), WANTED)), price_limit=30.0, **given)


# Goals


def test_a_product_becomes_one_goal_per_combination_of_its_options() -> None:
    goals = list(made_goals(product_of(LAMP), WANTED))

    assert [goal.options for goal in goals] == [
        ("black", "small"),
        ("black", "large"),
        ("polished brass", "small"),
        ("polished brass", "large"),
    ]
    assert goals[1].name == "B0000LAMP1.1"
    limit = goals[1].price_limit
    assert goals[1].instruction == (
        "Find me dust resistant lamps for living room with color: black, and size: large,"
        f" and price lower than {limit:.2f} dollars"
    )


def test_an_option_that_is_listed_twice_makes_no_second_goal() -> None:
    twice = line("B0000LAMP1", "Lamp", options={"color": ["red", "red "]})

    assert len(list(made_goals(product_of(twice), WANTED))) == 1


def test_a_product_without_an_instruction_has_no_goal() -> None:
    assert list(made_goals(product_of(LAMP), {"attributes": ["dust resistant"]})) == []


def test_what_is_too_dear_for_a_limit_has_none_and_the_instruction_names_none() -> None:
    (goal,) = made_goals(product_of(KETTLE), WANTED)

    assert goal.price_limit == NO_LIMIT
    assert goal.instruction == WANTED["instruction"]


# Reward, worked out by hand. Asked: two attributes, two options, a price: five things.


@pytest.mark.parametrize(
    ("changes", "chosen", "worth"),
    [
        ({}, {"color": "black", "size": "small"}, 1.0),
        ({}, {"color": "black"}, 0.8),
        ({}, {"color": "polished brass", "size": "small"}, 0.8),
        ({"price": 30.01}, {"color": "black", "size": "small"}, 0.8),
        # "dust resistant" is in the features, "living room" in the description.
        ({"attributes": (), "description": "For your Living Room"}, {}, 0.6),
        ({"attributes": ("room dividers",), "features": (), "description": ""}, {}, 0.2),
        # Attributes are compared by their words.
        ({"attributes": ("resistant dust", "room"), "features": (), "description": ""}, {}, 0.6),
    ],
)
def test_each_thing_that_is_missing_costs_its_share(
    changes: dict[str, Any], chosen: dict[str, str], worth: float
) -> None:
    assert reward(replace(product_of(LAMP), **changes), chosen, a_goal()) == pytest.approx(worth)


def test_the_kind_of_product_scales_the_whole() -> None:
    lamp = product_of(LAMP)  # its title has four words that count
    foreign = replace(lamp, query="beds", category=("Bed",))
    wanted = replace(lamp, title="Lamp One Two Three Four Five Six Seven Eight")

    # One word of nine is a match of 0.11: too little for a stranger, enough for a relative.
    assert type_reward(foreign, wanted) == 0.5
    assert type_reward(replace(foreign, query="lamps"), wanted) == 1
    assert type_reward(replace(foreign, category=("Light", "Lamps")), wanted) == 1
    assert type_reward(replace(foreign, category=("Lamps",)), wanted) == 0.5
    # One of eleven is below a tenth, none is nothing, and neither asks for the category.
    eleven = replace(wanted, title=wanted.title + " Nine Ten")
    assert type_reward(lamp, eleven) == 0.1
    assert type_reward(lamp, replace(wanted, title="Kettle")) == 0
    # One of four is above a fifth: the title alone is enough.
    assert type_reward(foreign, replace(wanted, title="Lamp One Two Three")) == 1


def test_a_title_without_words_leaves_the_kind_to_query_and_category() -> None:
    assert title_match("Lamp", "3 x 5") == 0.2


words = st.text(st.sampled_from("ab e"), max_size=9)


@settings(deadline=None)
@given(
    title=words,
    wanted=words,
    chosen=st.dictionaries(words, words, max_size=3),
    attributes=st.lists(words, max_size=3),
    options=st.lists(words, max_size=3),
)
def test_a_reward_is_between_nothing_and_one(
    title: str, wanted: str, chosen: dict[str, str], attributes: list[str], options: list[str]
) -> None:
    goal = a_goal(attributes=tuple(attributes), options=tuple(options))
    goal = replace(goal, product=replace(goal.product, title=wanted))

    assert 0 <= reward(replace(product_of(LAMP), title=title), chosen, goal) <= 1


# Search


def test_words_are_read_as_lucene_reads_english() -> None:
    assert analyse("The Women’s 3.5-inch Wi-Fi cables & relational U.S.A. tables") == [
        "women",
        "3.5",
        "inch",
        "wi",
        "fi",
        "cabl",
        "relat",
        "u.s.a",
        "tabl",
    ]


def test_only_products_that_have_a_word_are_found_and_equals_keep_their_order() -> None:
    search = Search({"one": "red lamp", "two": "red lamp", "three": "kettle"})

    assert search.find("Lamps") == ("one", "two")
    assert search.find("the of") == ()
    assert search.find("bicycle") == ()
    assert search.find("lamps kettle", most=1) == ("three",)


# Pages and moves


def test_a_visit_goes_from_the_search_field_to_the_receipt() -> None:
    env = shop()
    start = env.reset("B0000LAMP1.1")
    assert start.observation == f"WebShop [SEP] Instruction: [SEP] {start.task} [SEP] Search"

    results = env.step("search[brass lamp]")
    assert results.observation == (
        f"Instruction: [SEP] {start.task} [SEP] Back to Search [SEP] Page 1 (Total results: 1)"
        " [SEP] B0000LAMP1 [SEP] Tall Brass Reading Lamp [SEP] $20.0"
    )
    item = env.step("click[B0000LAMP1]")
    assert item.observation == (
        f"Instruction: [SEP] {start.task} [SEP] Back to Search [SEP] < Prev [SEP] color [SEP] black"
        " [SEP] polished brass [SEP] size [SEP] small [SEP] large [SEP] Tall Brass Reading Lamp"
        " [SEP] Price: $20.0 [SEP] Rating: N.A. [SEP] Description [SEP] Features [SEP] Reviews"
        " [SEP] Buy Now"
    )
    assert env.step("click[Description]").observation.endswith("[SEP] Stands in any living room.")
    assert env.step("click[< Prev]").observation == item.observation
    assert env.step("click[Black]").observation == item.observation
    assert env.step("click[large]").valid
    bought = env.step("click[buy now]")
    assert bought.terminated
    assert bought.reward == 1
    assert bought.observation == (
        "Thank you for shopping with us! [SEP] Your code: [SEP] None [SEP] Purchased [SEP] asin"
        ' [SEP] B0000LAMP1 [SEP] options [SEP] {"color": "black", "size": "large"} [SEP]'
        " Your score (min 0.0, max 1.0) [SEP] 1.0000"
    )
    assert not env.step("click[Back to Search]").valid


@pytest.mark.parametrize(
    "action",
    [
        "click[B0000LAMP1]",
        "click[Next >]",
        "search[]",
        "look around",
        "",
        "click[",
        "click[Buy Now]",
    ],
)
def test_what_is_not_possible_on_a_page_shows_it_again(action: str) -> None:
    env = shop()
    start = env.reset("B0000LAMP1.0")

    outcome = env.step(action)

    assert not outcome.valid
    assert outcome.observation == start.observation


def test_searching_needs_a_search_field() -> None:
    env = shop()
    env.reset("B0000LAMP1.0")
    env.step("search[lamp]")

    assert not env.step("search[lantern]").valid
    assert env.step("click[Back to Search]").observation.endswith("Search")
    assert env.step("search[lantern]").valid


def test_leaving_a_product_forgets_its_options() -> None:
    env = shop()
    env.reset("B0000LAMP1.0")
    for action in ("search[lamp]", "click[B0000LAMP1]", "click[black]", "click[< Prev]"):
        env.step(action)
    env.step("click[B0000LAMP1]")

    assert env.step("click[Buy Now]").reward == pytest.approx(0.6)


def test_results_come_ten_to_a_page() -> None:
    env = shop(*(line(f"B00000000{n}", f"Plain Bench {n}") for n in range(10)), line("B1", "Bench"))
    env.reset("B0000LAMP1.0")

    first = env.step("search[bench]").observation
    second = env.step("click[Next >]").observation

    assert "Page 1 (Total results: 11) [SEP] Next > [SEP]" in first
    assert "Page 2 (Total results: 11) [SEP] < Prev [SEP]" in second
    assert first.count("$20.0") == 10
    assert second.count("$20.0") == 1
    assert env.step("click[< Prev]").observation == first


def test_a_page_with_nothing_to_say_says_so() -> None:
    env = shop()
    env.reset("B0000LAMP1.0")
    env.step("search[lantern]")
    env.step("click[B000LANTE2]")

    assert env.step("click[Features]").observation.endswith("[SEP] No features found")


# Actions


def test_the_action_is_found_in_an_answer() -> None:
    assert extract("I think so.\n> click[Buy Now]\nclick[red]") == "click[Buy Now]"
    assert extract("Action: search[a [new] lamp] now") == "search[a [new] lamp]"
    assert extract("`click[< Prev]`") == "click[< Prev]"
    assert extract(" hello\nworld") == "hello"
    assert extract("") == ""


@given(st.text())
def test_a_canonical_action_is_its_own_canonical_form(action: str) -> None:
    assert canonical(canonical(action)) == canonical(action)


def test_actions_that_do_the_same_have_one_form() -> None:
    assert canonical("Click[Buy  Now]") == canonical("click[buy now]") == "click[buy now]"


# The data


def test_splits_are_disjoint_and_of_the_published_sizes() -> None:
    splits = WORLD.splits()

    assert {split: len(tasks) for split, tasks in splits.items()} == {
        "train": 5401,
        "validation": 1000,
        "test": 500,
    }


def the_catalogue() -> Catalogue:
    try:
        return read_catalogue()
    except DataError as error:
        pytest.skip(str(error))


def test_the_splits_are_the_goals_of_the_data_shuffled_once() -> None:
    names = list(the_catalogue().goals)
    random.Random(233).shuffle(names)
    splits = WORLD.splits()

    assert [*splits["test"], *splits["validation"], *splits["train"]] == names


def test_buying_the_product_of_a_goal_with_its_options_is_worth_one() -> None:
    catalogue = the_catalogue()

    for task in WORLD.splits()["test"]:
        goal = catalogue.goals[task]
        chosen = {str(number): value for number, value in enumerate(goal.options)}
        assert reward(goal.product, chosen, goal) == 1


def test_the_query_of_a_goal_finds_its_product_in_five_pages_three_times_in_four() -> None:
    catalogue = the_catalogue()
    search = Search({asin: product.document for asin, product in catalogue.products.items()})
    goals = [catalogue.goals[task] for task in WORLD.splits()["test"][:200]]

    found = sum(goal.product.asin in search.find(goal.product.query) for goal in goals)

    assert found >= 150


def test_data_that_is_not_there_is_named_with_its_origin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGORA_DATA", str(tmp_path))

    with pytest.raises(
        DataError, match=r"documents_1k\.jsonl does not exist; it comes from .*WebShop"
    ):
        WORLD.make()


def test_a_shop_is_made_from_the_files_in_the_data_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "webshop"
    folder.mkdir()
    (folder / "documents_1k.jsonl").write_text(json.dumps(LAMP) + "\n", encoding="utf-8")
    (folder / "items_ins_v2_1000.json").write_text(json.dumps({LAMP["id"]: WANTED}))
    monkeypatch.setenv("AGORA_DATA", str(tmp_path))

    env = WORLD.make()

    assert env.reset("B0000LAMP1.2").task.startswith(WANTED["instruction"])  # type: ignore[arg-type]
    env.close()
