import tomllib
from pathlib import Path

import pytest

from agora_lab.evaluate.grid import GridError, read_grid
from agora_lab.methods import NAMES, target_of

LEAST = 'name = "g"\nenvironments = ["webshop"]\nmethods = ["none"]\n'
SHIPPED = sorted((Path(__file__).parents[2] / "grids").glob("*.toml"))


def test_a_cell_is_an_environment_a_backbone_a_method_and_a_seed() -> None:
    grid = read_grid(
        'name = "g"\nenvironments = ["webshop", "alfworld"]\nmethods = ["none", "floor"]\n'
        'seeds = [0, 1]\n[[backbones]]\nname = "reader"\n'
        '[[backbones]]\nname = "llm"\nurl = "http://x/v1"\nenvironments = ["alfworld"]\n'
        'methods = ["floor"]\n'
    )

    assert len(list(grid.cells())) == 2 * (2 * 2 + 1)
    assert len({cell.key("t") for cell in grid.cells()}) == 10


def test_a_sweep_is_a_method_for_each_value() -> None:
    grid = read_grid(
        LEAST + '[[sweeps]]\nmethod = "agora"\nparameter = "keep_ratio"\nvalues = [0.1, 0.5]\n'
        '[[sweeps]]\nmethod = "agora"\nparameter = "k_recent"\nvalues = [4]\n'
    )
    _, tight, wide, recent = grid.methods

    assert (tight.name, tight.keep_ratio, tight.target) == ("agora keep_ratio=0.1", 0.1, 10)
    assert wide.keep_ratio == 0.5
    assert recent.options == {"k_recent": 4}
    assert grid.method("agora k_recent=4") is recent


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name = ", "not TOML"),
        ('name = "g"', "lacks environments"),
        (LEAST.replace('"none"', '"telepathy"'), "unknown method 'telepathy'"),
        (LEAST.replace('"none"', '"none", "none"'), "same name: none"),
        (LEAST.replace('"none"', '{ name = "none", colour = 1 }'), "for a method: colour"),
        (LEAST.replace('"none"', "7"), "7 where a method should be"),
        (LEAST + "colour = 1", "for the grid itself: colour"),
        (LEAST + '[[backbones]]\nname = "llm"', "not a reader and has no url"),
        (LEAST + '[[backbones]]\nurl = "http://x"', "lacks part of a backbone"),
        (LEAST + '[[backbones]]\nname = "reader"\nmethods = ["floor"]', "does not list: floor"),
        (LEAST + '[[sweeps]]\nmethod = "agora"', "without method, parameter and values"),
    ],
)
def test_a_grid_that_cannot_be_played_says_what_is_wrong(text: str, said: str) -> None:
    with pytest.raises(GridError, match=said):
        read_grid(text)


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.stem)
def test_the_grids_that_ship_can_be_read(file: Path) -> None:
    grid = read_grid(file.read_text(encoding="utf-8"))

    assert grid.name == file.stem == tomllib.loads(file.read_text(encoding="utf-8"))["name"]
    assert any(method.name == "none" for method in grid.methods)


def test_only_methods_with_a_budget_have_a_target() -> None:
    assert {name for name in NAMES if target_of(name, 0.25) is None} == {
        "none",
        "floor",
        "observation_mask",
        "langchain_clear_tool_uses",
        "litellm_compress",
        "headroom",
        "agora_paper_no_scorer",
        # Their budget is a share of what lies outside the floor.
        "mask_results",
        "commands_first",
    }
