"""Common knowledge of the ScienceWorld reader: animals, paints, melting points, houses.

A language model has it too. Nothing here is about a single task.
"""

import re

LIFESPANS = """
giant tortoise 170, tortoise 120, turtle 80, parrot 60, elephant 65, crocodile 70, alligator 50
human 75, chimpanzee 45, gorilla 40, brown bear 30, bear 30, hippopotamus 45, horse 28
blue jay 7, dove 12, pigeon 10, chicken 8, duck 10, crow 15, owl 15, eagle 25, ostrich 40
beaver 20, wolf 14, dog 13, cat 15, fox 9, lion 14, tiger 15, deer 18, cow 20, pig 17, sheep 12
rabbit 9, hedgehog 6, squirrel 9, chipmunk 8, common toad 11, toad 11, frog 10, chameleon 6
snake 15, lizard 8, rat 3, mouse 2, hamster 3, bee 0.3, moth 0.03, butterfly 0.1
ant 1, fly 0.08, dragonfly 0.15
"""
_PAIR = re.compile(r"([a-z][a-z ]*) ([\d.]+)")
YEARS: tuple[tuple[str, float], ...] = tuple(
    sorted(
        ((name.strip(), float(years)) for name, years in _PAIR.findall(LIFESPANS)),
        key=lambda pair: -len(pair[0]),
    )
)
"""Animals and how long they may live, longer names first."""

STAGES = (
    "egg",
    "baby",
    "hatchling",
    "juvenile",
    "adult",
    "larva",
    "pupa",
    "tadpole",
    "caterpillar",
)

MELTING = {
    "mercury": -39.0,
    "ice cream": -3.0,
    "ice": 0.0,
    "water": 0.0,
    "juice": -2.0,
    "milk": -1.0,
    "caesium": 28.0,
    "gallium": 30.0,
    "butter": 35.0,
    "chocolate": 36.0,
    "marshmallow": 45.0,
    "wax": 60.0,
    "sodium": 98.0,
    "rubber": 180.0,
    "tin": 232.0,
    "lead": 327.0,
}
"""Melting points in degrees Celsius, for substances that heating cannot decide."""
ROOM_DEGREES = 20.0

PAINTS = {
    "green": ("blue", "yellow"),
    "orange": ("red", "yellow"),
    "violet": ("red", "blue"),
    "purple": ("red", "blue"),
}
VESSELS = ("jug", "glass cup", "bowl", "metal pot", "tin cup", "ceramic cup")

USUAL_ROOMS = {
    "animal": ("outside", "greenhouse"),
    "plant": ("greenhouse", "outside"),
    "living thing": ("outside", "greenhouse"),
    "non-living thing": ("kitchen", "workshop"),
    "thermometer": ("kitchen",),
    "paint": ("art studio",),
}
LEADS_TO = {
    "outside": ("kitchen", "greenhouse", "hallway"),
    "foundry": ("outside", "kitchen", "greenhouse", "hallway"),
    "bathroom": ("kitchen", "bedroom", "hallway"),
}
"""Rooms to try first on the way to a room whose door was not seen."""
USUALLY_OFF = "hallway"
"""The room behind most doors of a house."""

FIXED = (
    "agent air ground door drain water soil wood soap sink stove oven fridge freezer cupboard "
    "counter table bathtub toilet bed closet desk drawer couch shelf fountain pit hive furnace "
    "picture painting drawing box substance chair mattress panel generator pot plant tree"
).split()
"""Things that nobody can carry."""


def is_plant(name: str) -> bool:
    """Return True for the name of a plant."""
    return bool({"tree", "plant"} & set(name.split()))


def is_animal(name: str) -> bool:
    """Return True for the name of an animal at any stage. Bees fly off and are left out."""
    words = set(name.split())
    if "bee" in words or is_plant(name) or "dead" in words:
        return False
    return bool(words & set(STAGES)) or any(f" {animal} " in f" {name} " for animal, _ in YEARS)


def melting_point(name: str) -> float:
    """Return the melting point of a substance; an unknown one is solid at room temperature."""
    known = (point for substance, point in MELTING.items() if f" {substance} " in f" {name} ")
    return next(known, ROOM_DEGREES + 1)


def years(name: str) -> float:
    """Return the life span of an animal in years; 10 if unknown."""
    return next((span for animal, span in YEARS if f" {animal} " in f" {name} "), 10.0)


def is_of(kind: str, name: str) -> bool:
    """Return True if a thing is of a kind that tasks ask for."""
    if kind == "animal":
        return is_animal(name)
    if kind == "plant":
        return is_plant(name)
    if kind == "living thing":
        return is_animal(name) or is_plant(name)
    return not (is_animal(name) or is_plant(name) or set(name.split()) & set(FIXED))
