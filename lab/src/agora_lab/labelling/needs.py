"""How old what a call needs is, where the environment knows what each request needs.

The desk knows which values a request needs and does not say, the shop what an order that points
back needs. For the calls of an episode that was played with everything sent this tells which of
them, and of a call's own arguments, stand in the prompt but nowhere in its floor.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agora_lab.backbones import prompt_text
from agora_lab.chats import K_RECENT
from agora_lab.environments.desk.script import Script, Wish
from agora_lab.episodes.episode import Episode, Move
from agora_lab.methods.in_place import Places

if TYPE_CHECKING:
    # They need simulators and WebShop's search engine, which the desk does not.
    from agora_lab.environments.chains import Chains
    from agora_lab.environments.households import Households
    from agora_lab.environments.shop_orders import ShopOrders

_LEAST_CHARACTERS = 4
"""Shorter values, such as a state, stand somewhere by accident."""
_LOOK = " is called the "
"""What ScienceWorld says of a room and of nothing else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallNeeds:
    """One call, and which of the values that it needs are old."""

    task: str
    step: int
    """The number of the call's step, from 1."""
    request: int
    kind: str
    """What kind of request it was made for."""
    deed: bool
    """Whether it is the call that does what was asked for."""
    points_back: bool
    """Whether it is a deed that needs what an earlier request brought."""
    needed: tuple[str, ...]
    old: tuple[str, ...]
    """Those that the prompt has, but not its floor."""
    lost: tuple[str, ...]
    """Of the old ones, those that no tool could show again."""
    steps_ago: int
    """How many steps ago the newest trace of the oldest of them is; 0 if none is old."""


def needs_of(episode: Episode, script: Script) -> Iterator[CallNeeds]:
    """Yield what each call of an episode needs. The episode must have been sent whole."""
    request = 0
    for at, move in enumerate(episode.moves):
        if not move.called:
            request += 1
            continue
        name, _, text = move.action.partition(" ")
        arguments = json.loads(text)
        wish = script.wishes[request]
        deed = wish.deed is not None and wish.deed == (name, arguments)
        needed = _needed(arguments, wish, deed=deed)
        messages = episode.conversation(at)
        floor = floor_text(messages)
        ages = {value: _steps_ago(value, episode, at) for value in needed}
        old = tuple(value for value in needed if ages[value] and not stands_in(value, floor))
        kept = {need.value for need in wish.needs if need.again}
        declared = {need.value for need in wish.needs}
        yield CallNeeds(
            task=episode.task,
            step=at + 1,
            request=request,
            kind=wish.kind,
            deed=deed,
            points_back=deed and bool(wish.needs),
            needed=needed,
            old=old,
            lost=tuple(value for value in old if value in declared - kept),
            steps_ago=max((ages[value] for value in old), default=0),
        )


def orders_of(episode: Episode, shop: "ShopOrders") -> Iterator[CallNeeds]:
    """Yield what each order that points back needs, at its first call.

    The episode is gone through once more in the shop, which knows; it has to be at the beginning
    of the same conversation.
    """
    first, request = True, 0
    for at, move in enumerate(episode.moves):
        needed = shop.needed if move.called and first else ()
        order = shop.orders[request]
        if needed:
            floor = floor_text(episode.conversation(at))
            ages = {value: _steps_ago(value, episode, at) for value in needed}
            old = tuple(value for value in needed if ages[value] and not stands_in(value, floor))
            yield CallNeeds(
                task=episode.task,
                step=at + 1,
                request=request,
                kind="again" if order.again is not None else "cheaper",
                deed=False,
                points_back=True,
                needed=needed,
                old=old,
                lost=(),
                steps_ago=max((ages[value] for value in old), default=0),
            )
        first = not move.called
        request = min(request + (not move.called), len(shop.orders) - 1)
        shop.step(move.action)


def goals_of(episode: Episode, house: "Households") -> Iterator[CallNeeds]:
    """Yield what each goal needs at its first call: a thing of its kind, if one was seen already.

    Any of them would do, so none is old while one stands in the floor. The house has to be at the
    beginning of the same conversation.
    """
    first, request = True, 0
    for at, move in enumerate(episode.moves):
        if move.called and first:
            messages = episode.conversation(at)
            floor = floor_text(messages)
            needed = house.wanted
            ages = {value: _steps_ago(value, episode, at) for value in needed}
            seen = tuple(value for value in needed if ages[value])
            old = () if any(stands_in(value, floor) for value in needed) else seen
            yield CallNeeds(
                task=episode.task,
                step=at + 1,
                request=request,
                kind=house.goals[house.at].treatment or "put",
                deed=False,
                points_back=False,
                needed=needed,
                old=old,
                lost=(),
                steps_ago=min((ages[value] for value in old), default=0),
            )
        first = not move.called
        request += not move.called
        house.step(move.action)


def carries_of(episode: Episode, house: "Chains") -> Iterator[CallNeeds]:
    """Yield what each request in a house needs at its first call: a look that shows a place.

    It shows where a thing is or, of one that has to go back, where it was before it was picked up.
    Of a thing that was chosen before any step with its name will do. One that was carried before
    needs none: what was said tells where it is. The house has to be at the beginning of the same
    conversation.
    """
    first, request = True, 0
    taken: dict[tuple[int, str], int] = {}
    for at, move in enumerate(episode.moves):
        asked = house.requests[min(request, len(house.requests) - 1)]
        if move.called and first:
            names = house.wanted
            until = at
            if asked.kind == "back" and asked.to is not None and names:
                until = taken.get((asked.to, names[0]), 0)
            steps = [n for n in range(until) if _shows(episode.moves[n], names, asked.kind)]
            newest = [n for n in range(at) if episode.moves[n].called][-K_RECENT:]
            old = names if steps and steps[-1] not in newest else ()
            yield CallNeeds(
                task=episode.task,
                step=at + 1,
                request=request,
                kind=asked.kind,
                deed=False,
                points_back=asked.to is not None,
                needed=names,
                old=old,
                lost=old if asked.kind == "back" else (),
                steps_ago=at - steps[-1] if old else 0,
            )
        if move.called and '"pick up ' in move.action:
            name = str(json.loads(move.action.partition(" ")[2])["command"])
            taken[request, name.removeprefix("pick up ")] = at
        first = not move.called
        request += not move.called
        house.step(move.action)


def _shows(move: Move, names: Sequence[str], kind: str) -> bool:
    """Tell whether a step shows where one of some things is, or names the one that was chosen."""
    told = move.observation
    if kind == "again":
        told = f"{move.action}\n{told}"
    elif _LOOK not in told:
        return False
    return move.called and any(stands_in(name, told) for name in names)


def floor_text(messages: Sequence[dict[str, Any]]) -> str:
    """Return the text of a prompt's floor: no step but the newest ones, and all that was said."""
    places = Places.of(messages, observations="none")
    parsed = places.parsed
    kept = [
        message
        for message, owner in zip(parsed.messages, parsed.owners, strict=True)
        if owner == 0 or abs(owner) in places.held
    ]
    return prompt_text(kept)


def stands_in(value: str, text: str) -> bool:
    """Tell whether a value stands in a text, not as a part of a longer one.

    >>> stands_in("12.5", "total 12.50"), stands_in("12.5", '{"total": 12.5}')
    (False, True)
    """
    return re.search(rf"(?<![\w.]){re.escape(value)}(?![\w]|\.\d)", text) is not None


def _needed(arguments: dict[str, Any], wish: Wish, *, deed: bool) -> tuple[str, ...]:
    found = [value for value in arguments.values() if isinstance(value, str)]
    if deed:
        found += [need.value for need in wish.needs]
    long = [value for value in found if len(value) >= _LEAST_CHARACTERS]
    return tuple(dict.fromkeys(long))


def _steps_ago(value: str, episode: Episode, at: int) -> int:
    """Return how many steps ago a value stood in a call or its result; 0 if in none."""
    for ago, move in enumerate(reversed(episode.moves[:at]), start=1):
        if move.called and (stands_in(value, move.observation) or stands_in(value, move.action)):
            return ago
    return 0
