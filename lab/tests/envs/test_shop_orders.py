"""Several orders in one conversation; the products are made up here."""

import json
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("bm25s", reason="the search engine is in the extra `environments`")
pytest.importorskip("Stemmer", reason="the stemmer is in the extra `environments`")
pytest.importorskip("rapidfuzz", reason="the comparison of words is in the extra `environments`")

from agora_lab.agents.scripted import reader
from agora_lab.agents.scripted.shop_orders import BOUGHT, LOOKED
from agora_lab.envs import world
from agora_lab.envs.shop_orders import WORLD, Order, ShopOrders
from agora_lab.envs.webshop import Catalogue, Search
from agora_lab.envs.webshop.products import Goal, made_goals, product_of
from agora_lab.episodes import Cell, Episode, Move


def line(asin: str, title: str, price: float, **given: Any) -> dict[str, Any]:
    product = {
        "Title": title,
        "Description": "",
        "BulletPoints": [],
        "pricing": [price],
        "Price": f"${price}",
        "Rating": "N.A.",
        "options": {},
        "Attributes": [],
        "product_category": "House › Light › Lamps",
        "query": "lamps",
    } | given
    return {"id": asin, "contents": title.lower(), "product": product}


LINES = (
    line(
        "B0000LAMP1",
        "Brass Lamp dust resistant for living room",
        20.0,
        options={"color": ["black", "white"]},
        Attributes=["dust resistant", "living room"],
    ),
    line("B0000LAMP2", "Paper Lamp", 9.5),
    line("B000KETTL1", "Steel Kettle", 31.0, query="kettles"),
    line("B000KETTL2", "Glass Kettle", 30.0, query="kettles"),
)
WANTED = {
    "instruction": "Find me dust resistant lamps for living room",
    "instruction_attributes": ["dust resistant", "living room"],
}
KETTLES = ("B000KETTL1", "B000KETTL2")


def goal() -> Goal:
    return next(
        one for one in made_goals(product_of(LINES[0]), WANTED) if one.options == ("black",)
    )


def shop() -> ShopOrders:
    products = {one.asin: one for one in map(product_of, LINES)}
    return ShopOrders(
        Catalogue(products, {}), Search({asin: one.document for asin, one in products.items()})
    )


def orders() -> list[Order]:
    look = "Look at the first two products that a search for kettle lists; buy nothing yet."
    pick = "Of the two products you looked at for order 2, buy the cheaper one, without options."
    again = "Buy once more exactly what you bought for order 1."
    return [
        Order(text=f"Order 1. {goal().instruction}", goal=goal()),
        Order(text=f"Order 2. {look}", goal=goal(), pair=KETTLES),
        Order(text=f"Order 3. {again}", goal=goal(), again=0),
        Order(text=f"Order 4. {pick}", goal=goal(), pair=KETTLES, looked=1),
    ]


def bought(desk: ShopOrders, asin: str, *options: str, words: str = "lamp kettle") -> float:
    for action in (f"search[{words}]", f"click[{asin}]", *(f"click[{o}]" for o in options)):
        assert desk.step(f"shop {json.dumps({'action': action})}").valid
    return desk.step('shop {"action": "click[Buy Now]"}').reward


def test_an_order_that_points_back_wants_exactly_what_was_bought() -> None:
    right, other, without = shop(), shop(), shop()
    for one in (right, other, without):
        one.begin(orders())
        assert bought(one, "B0000LAMP1", "black") == pytest.approx(1 / 3)
        one.step("Bought.")
        one.step("Looked.")

    assert bought(right, "B0000LAMP1", "black") == pytest.approx(2 / 3)
    assert bought(other, "B0000LAMP2") == pytest.approx(1 / 3)
    assert bought(without, "B0000LAMP1") == pytest.approx(1 / 3)


def test_of_two_that_were_looked_at_only_the_cheaper_one_counts() -> None:
    right, wrong = shop(), shop()
    for one in (right, wrong):
        one.begin(orders())
        for _ in range(3):
            one.step("Next.")

    assert bought(right, "B000KETTL2") == pytest.approx(1 / 3)
    assert bought(wrong, "B000KETTL1") == 0.0


def test_an_order_ends_after_its_steps() -> None:
    one = shop()
    one.begin(orders())
    for _ in range(30):
        one.step('shop {"action": "search[lamp]"}')

    late = one.step('shop {"action": "click[B0000LAMP1]"}')

    assert not late.valid
    assert late.observation.startswith("Error")
    assert one.step("I could not.").observation == orders()[1].text


def played() -> Episode:
    one = shop()
    start = one.begin(orders())
    episode = Episode(
        cell=Cell(environment="shop_orders", backbone="reader", method="none"),
        task="made up",
        system=WORLD.instructions,
        opening=f"{start.task}\n\n{start.observation}",
        moves=(),
        ended="done",
    )
    for number in range(80):
        answer = reader("shop_orders").answer(episode.conversation(number)).text
        outcome = one.step(answer)
        move = Move(
            sent=(),
            answer=answer,
            action=answer,
            observation=outcome.observation,
            reward=outcome.reward,
            valid=outcome.valid,
            tokens_whole=0,
            tokens_sent=0,
            called=answer.startswith("shop {"),
        )
        episode = replace(episode, moves=(*episode.moves, move))
        if outcome.terminated:
            break
    return episode


def test_the_reader_does_everything_when_everything_is_sent() -> None:
    episode = played()

    said = [move.answer for move in episode.moves if not move.called]
    assert said == [BOUGHT, LOOKED, BOUGHT, BOUGHT]
    assert all(move.valid for move in episode.moves)
    assert episode.reward == pytest.approx(1.0)


def test_its_tasks_are_apart() -> None:
    splits = world("shop_orders").splits()

    assert [len(splits[name]) for name in ("train", "validation", "test")] == [180, 60, 100]
