import configparser
import email
import hashlib
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.docs.pages import links

ROOT = Path(__file__).parents[2]
LARGEST = 40_000_000
BUILD = """
import sys
from hatchling.build import build_sdist, build_wheel
print((build_wheel if sys.argv[1] == "wheel" else build_sdist)(sys.argv[2]))
"""


LAB = ROOT / "lab"


def built(kind: str, folder: Path, project: Path = ROOT, **known: str) -> Path:
    """Return a freshly built file, dated as a release dates it."""
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", BUILD, kind, str(folder)],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000", **known},
    )
    assert done.returncode == 0, done.stderr
    return folder / done.stdout.split()[-1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if find_spec("hatchling") is None:
        pytest.skip("hatchling builds the wheel: the group dev")
    return built("wheel", tmp_path_factory.mktemp("wheel") / "first")


@pytest.fixture(scope="module")
def lab_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if find_spec("hatchling") is None:
        pytest.skip("hatchling builds the wheel: the group dev")
    if not LAB.is_dir():
        pytest.skip("the lab is not here: this is the source of agora-context alone")
    return built("wheel", tmp_path_factory.mktemp("wheel-lab") / "first", LAB)


def metadata(wheel: Path) -> email.message.Message:
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return email.message_from_bytes(archive.read(name))


def readme(said: email.message.Message) -> str:
    """Return the text of the package's page."""
    text = said.get_payload(decode=True)
    assert isinstance(text, bytes)
    return text.decode()


def test_two_builds_give_the_same_wheel_byte_for_byte(wheel: Path, tmp_path: Path) -> None:
    again = built("wheel", tmp_path / "second")

    assert again.name == wheel.name
    assert (
        hashlib.sha256(again.read_bytes()).digest() == hashlib.sha256(wheel.read_bytes()).digest()
    )


def test_two_builds_of_the_lab_give_the_same_wheel_byte_for_byte(
    lab_wheel: Path, tmp_path: Path
) -> None:
    again = built("wheel", tmp_path / "second", LAB)

    assert again.read_bytes() == lab_wheel.read_bytes()
    assert lab_wheel.stat().st_size <= LARGEST


@pytest.mark.parametrize("project", [ROOT, LAB], ids=["product", "lab"])
def test_two_builds_give_the_same_source_distribution_byte_for_byte(
    lab_wheel: Path, project: Path, tmp_path: Path
) -> None:
    first, again = (built("sdist", tmp_path / name, project) for name in ("first", "second"))

    assert again.name == first.name
    assert again.read_bytes() == first.read_bytes()


def test_the_wheel_of_the_lab_holds_the_lab_and_its_commands_and_nothing_else(
    lab_wheel: Path,
) -> None:
    with zipfile.ZipFile(lab_wheel) as archive:
        names = archive.namelist()
        [points] = [name for name in names if name.endswith(".dist-info/entry_points.txt")]
        commands = configparser.ConfigParser()
        commands.read_string(archive.read(points).decode())

    assert {name.partition("/")[0].split("-")[0] for name in names} == {"agora_lab"}
    assert "agora_lab/py.typed" in names
    assert set(commands["agora.commands"]) == {"lab", "label", "scorer", "train"}
    for target in commands["agora.commands"].values():
        assert target.partition(":")[0].replace(".", "/") + ".py" in names


def test_the_lab_asks_for_the_product_of_its_own_version(wheel: Path, lab_wheel: Path) -> None:
    version = metadata(wheel)["Version"]
    requirements = metadata(lab_wheel).get_all("Requires-Dist") or []

    assert metadata(lab_wheel)["Version"] == version
    assert f"agora-context[cli]=={version}" in requirements


def test_the_source_of_the_lab_holds_its_tests_and_nothing_of_the_product(
    lab_wheel: Path, tmp_path: Path
) -> None:
    with tarfile.open(built("sdist", tmp_path / "sdist", LAB)) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]

    assert {"pyproject.toml", "README.md", "LICENSE", "tests/test_imports.py"} <= set(names)
    assert [name for name in names if name.startswith("src/agora/")] == []


def test_a_release_that_knows_its_source_has_a_readme_whose_links_all_lead_there(
    wheel: Path, tmp_path: Path
) -> None:
    source = "https://source.test/agora"
    released = metadata(built("wheel", tmp_path / "released", AGORA_SOURCE_URL=source))
    text = readme(released)

    relative = [link for link in links(text) if "://" not in link and link[0] != "#"]
    pictures = re.findall(r'(?:src|srcset)="([^"]+)"', text)
    assert relative == []
    assert pictures
    assert [path for path in pictures if not path.startswith(f"{source}/raw/v")] == []
    assert f"Source, {source}" in (released.get_all("Project-URL") or [])
    assert readme(metadata(wheel)) == (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_wheel_is_small(wheel: Path) -> None:
    assert wheel.stat().st_size <= LARGEST


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()

    assert {name.partition("/")[0].split("-")[0] for name in names} == {"agora", "agora_context"}
    assert [name for name in names if "lab" in name.split("/")] == []
    assert "agora/py.typed" in names
    assert "agora/scorers/shipped/weights.json" in names
    assert [name for name in names if name.endswith((".pyc", ".pkl", ".onnx", ".parquet"))] == []


def test_the_base_requires_nothing(wheel: Path) -> None:
    requirements = metadata(wheel).get_all("Requires-Dist") or []

    assert [line for line in requirements if "extra ==" not in line] == []


def test_every_package_that_an_extra_names_has_its_reason_in_the_documentation() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    named = [*settings["project"]["optional-dependencies"].values()]
    named += [settings["dependency-groups"][group] for group in ("dev", "docs")]
    lab = tomllib.loads((ROOT / "lab" / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named += [lab["dependencies"], *lab["optional-dependencies"].values()]
    packages = {re.split(r"[<>=!;\[ ]", line)[0].lower() for lines in named for line in lines}
    pages = [ROOT / "docs" / name for name in ("dependencies.md", "dependencies-lab.md")]
    reasons = "".join(page.read_text(encoding="utf-8") for page in pages).lower()
    # The page names some by the name they are known by.
    known = {name: name.removesuffix("-slim").removesuffix("-core") for name in packages}
    known |= {
        "opentelemetry-exporter-otlp-proto-http": "opentelemetry",
        "strands-agents": "strands",
    }
    known["opentelemetry-sdk"] = "opentelemetry"

    assert sorted(n for n in packages - {"agora-context"} if known[n] not in reasons) == []


def test_the_source_distribution_holds_what_the_tests_need_and_no_other_project(
    wheel: Path, tmp_path: Path
) -> None:
    with tarfile.open(built("sdist", tmp_path / "sdist")) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]

    assert {"pyproject.toml", "README.md", "LICENSE", "tests/test_package.py"} <= set(names)
    assert [name for name in names if name.startswith(("bundles/", "lab/"))] == []
