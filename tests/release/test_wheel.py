import configparser
import email
import json
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LAB = ROOT / "lab"
LARGEST = 40_000_000
BUILD = "import sys, hatchling.build as b; print(b.build_wheel(sys.argv[1]))"


def built(folder: Path, project: Path) -> Path:
    if find_spec("hatchling") is None:
        pytest.skip("hatchling builds the wheel: the group dev")
    done = subprocess.run(
        [sys.executable, "-c", BUILD, str(folder)],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder / done.stdout.split()[-1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("wheel"), ROOT)


@pytest.fixture(scope="module")
def lab_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not LAB.is_dir():
        pytest.skip("the lab is not here: this is the source of agora-context alone")
    return built(tmp_path_factory.mktemp("wheel-lab"), LAB)


def metadata(wheel: Path) -> email.message.Message:
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return email.message_from_bytes(archive.read(name))


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()

    assert {name.partition("/")[0].split("-")[0] for name in names} == {"agora", "agora_context"}
    assert "agora/py.typed" in names
    assert [name for name in names if name.endswith((".pyc", ".pkl", ".onnx", ".parquet"))] == []
    assert wheel.stat().st_size <= LARGEST


def test_the_base_requires_nothing(wheel: Path) -> None:
    requirements = metadata(wheel).get_all("Requires-Dist") or []

    assert [line for line in requirements if "extra ==" not in line] == []


def test_without_extras_every_module_loads_or_names_the_extra_that_it_lacks(
    wheel: Path, tmp_path: Path
) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    program = Path(__file__).with_name("import_all.py")

    done = subprocess.run(
        [sys.executable, "-I", "-S", str(program), str(tmp_path)], capture_output=True, text=True
    )

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == []


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
    for target in commands["agora.commands"].values():
        assert target.partition(":")[0].replace(".", "/") + ".py" in names


def test_the_lab_asks_for_the_product_of_its_own_version(wheel: Path, lab_wheel: Path) -> None:
    version = metadata(wheel)["Version"]

    assert metadata(lab_wheel)["Version"] == version
    assert f"agora-context[cli]=={version}" in (metadata(lab_wheel).get_all("Requires-Dist") or [])
