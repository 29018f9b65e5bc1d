import ast
from pathlib import Path

import pytest

import agora

SERVING = [
    file
    for file in sorted(Path(agora.__file__).parent.rglob("*.py"))
    if "lab" not in file.relative_to(Path(agora.__file__).parent).parts
]
MODULES = {"pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle", "joblib", "torch"}
CALLS = {"eval", "exec", "compile", "__import__"}


def dangers(source: str) -> list[str]:
    """Return what in a program could run code that came with data."""
    found: list[str] = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                found += [a.name for a in names if a.name.partition(".")[0] in MODULES]
            case ast.ImportFrom(module=str(module)) if module.partition(".")[0] in MODULES:
                found.append(module)
            case ast.Call(func=ast.Name(id=name)) if name in CALLS:
                found.append(name)
            case ast.keyword(arg="trust_remote_code" | "allow_pickle" as name):
                found.append(name)
            case ast.Attribute(value=ast.Name(id="torch"), attr="load"):
                found.append("torch.load")
    return found


@pytest.mark.parametrize("file", SERVING, ids=lambda file: file.name)
def test_nothing_on_the_way_to_a_score_unpickles_or_runs_what_it_reads(file: Path) -> None:
    assert not dangers(file.read_text())


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from torch import nn",
        "import torch.nn",
        "torch.load('x')",
        "eval('1')",
        "load('x', trust_remote_code=True)",
        "np.load('x', allow_pickle=True)",
    ],
)
def test_each_danger_would_be_seen(source: str) -> None:
    assert dangers(source)
