"""What the release workflow promises, read from its file: no runner is here to ask."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
WORKFLOWS = ROOT / ".github" / "workflows"


@pytest.fixture(scope="module")
def jobs() -> dict[str, Any]:
    yaml = pytest.importorskip("yaml", reason="pyyaml reads the workflow: the group oracles")
    if not WORKFLOWS.is_dir():
        pytest.skip("the workflows are not here: this is the source of agora-context alone")
    found = yaml.safe_load((WORKFLOWS / "release.yml").read_text(encoding="utf-8"))["jobs"]
    assert isinstance(found, dict)
    return found


def used(job: Any) -> Iterator[str]:
    return (step["uses"] for step in job["steps"] if "uses" in step)


def waits_for(jobs: dict[str, Any], name: str) -> set[str]:
    needed = jobs[name].get("needs", [])
    direct = {needed} if isinstance(needed, str) else set(needed)
    return direct.union(*(waits_for(jobs, other) for other in direct))


def test_nothing_is_published_before_it_was_tried_and_attested(jobs: dict[str, Any]) -> None:
    assert waits_for(jobs, "publish") == {"build", "try", "try-lab", "attest"}


def test_only_what_attests_and_publishes_holds_an_identity(jobs: dict[str, Any]) -> None:
    holding = {
        name for name, job in jobs.items() if job.get("permissions", {}).get("id-token") == "write"
    }

    assert holding == {"attest", "publish"}
    # Neither of the two runs anything of ours.
    assert [step for name in holding for step in jobs[name]["steps"] if "run" in step] == []


def test_every_file_that_is_published_has_its_provenance_and_the_wheel_its_parts(
    jobs: dict[str, Any],
) -> None:
    built = {
        step["with"]["name"]
        for step in jobs["build"]["steps"]
        if step.get("uses", "").startswith("actions/upload-artifact@")
    }
    attested = [
        (step["uses"].partition("@")[0], step["with"])
        for step in jobs["attest"]["steps"]
        if "attest" in step["uses"]
    ]
    [provenance] = [what for name, what in attested if name == "actions/attest-build-provenance"]
    lists = [what["sbom-path"] for name, what in attested if name == "actions/attest-sbom"]

    assert built == {"dist", "dist-lab", "sbom"}
    assert provenance["subject-path"].split() == ["dist/*", "dist-lab/*"]
    assert [Path(path).parent.name for path in lists] == ["sbom", "sbom"]


def test_every_action_names_its_version_or_hash(jobs: dict[str, Any]) -> None:
    actions = [action for job in jobs.values() for action in used(job)]

    assert actions
    pinned = re.compile(r"[\w-]+/[\w-]+@(v\d+|[0-9a-f]{40}|release/v\d+)")
    assert [action for action in actions if not pinned.fullmatch(action)] == []
