import pytest

from agora import Step
from agora_lab.envs.atoms import atoms_of


@pytest.mark.parametrize(
    ("environment", "action", "observation", "atom"),
    [
        (
            "alfworld",
            "Thought: I should find an apple to put in the fridge.\nAction: go to countertop 1",
            "On the countertop 1, you see a apple 1, a bread 1,\na knife 1, and a mug 1.",
            "ACTION go to countertop 1\nOBS countertop 1: apple 1, bread 1, knife 1, mug 1",
        ),
        (
            "alfworld",
            "open fridge 1",
            "You open the fridge 1. The fridge 1 is open. In it, you see nothing.",
            "ACTION open fridge 1\nOBS fridge 1: nothing",
        ),
        (
            "alfworld",
            "take bowl 1 from desk 1",
            "You pick up the bowl 1 from the desk 1.",
            "ACTION take bowl 1 from desk 1\nOBS holding = bowl 1; from = desk 1",
        ),
        (
            "webshop",
            "Thought: I picked color and size; now buy.\nAction: click[Buy Now]",
            'Purchased [SEP] asin [SEP] B00O30JLDK [SEP] options [SEP] {"size": "L"}',
            "ACTION click[Buy Now]\nOBS purchased asin=B00O30JLDK; size=L",
        ),
        (
            "webshop",
            "search[shirt]",
            "Instruction: [SEP] [SEP] Page 1 (Total results: 9) [SEP] B00O30JLDK [SEP] A [SEP] $1",
            "ACTION search[shirt]\nOBS page=1; results=9; B00O30JLDK=$1 A",
        ),
        (
            "scienceworld",
            "use thermometer in inventory on metal block",
            "the thermometer measures a temperature of 22 degrees celsius",
            "ACTION use thermometer on metal block\nOBS temperature(metal block) = 22C",
        ),
        (
            "scienceworld",
            "look around",
            "This room is called the hall.\n\tan agent\n\ta mat\n\tA door to a den (that is open)",
            "ACTION look around\nOBS hall: mat; door to a den = open",
        ),
        ("desk", "look", '{"seats": 4}', "ACTION look\nOBS seats=4"),
    ],
)
def test_a_step_becomes_its_action_and_flat_facts(
    environment: str, action: str, observation: str, atom: str
) -> None:
    step = Step(number=1, action=action, observation=observation, tokens=9)

    assert atoms_of(environment)(step).text == atom
