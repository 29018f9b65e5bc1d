"""What Kustomize makes of `deploy/kustomize`, held to Kubernetes' schemas and to our own words."""

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("prometheus_client", reason="the extra gateway is not installed")

from agora.core.compression import Reason
from agora.gateway.config import parse_config
from agora.gateway.editing.job import CONTINUED, NOT_ADMITTED
from agora.gateway.editing.pool import Missed
from agora.gateway.watching.metrics import Meter

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
FOLDER = Path(__file__).parents[2] / "deploy" / "kustomize"
Made = list[dict[str, Any]]


@cache
def command() -> list[str] | None:
    """Return what builds a folder here; kubectl has Kustomize in it, an old one before 1.21."""
    if found := shutil.which("kustomize"):
        return [found, "build"]
    if found := shutil.which("kubectl"):
        asked = [found, "version", "--client", "-o", "json"]
        said = subprocess.run(asked, capture_output=True, text=True).stdout
        if "kustomizeVersion" in said:
            return [found, "kustomize"]
    return None


needs_kustomize = pytest.mark.skipif(
    command() is None, reason="neither kustomize nor a kubectl with it is installed"
)


def build(folder: Path) -> Made:
    words = command()
    assert words is not None
    # No cluster is asked; the file that says where one is does not exist.
    env = {**os.environ, "KUBECONFIG": os.devnull}
    done = subprocess.run([*words, str(folder)], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    return [resource for resource in yaml.safe_load_all(done.stdout) if resource]


def the(made: Made, kind: str) -> dict[str, Any]:
    [found] = [resource for resource in made if resource["kind"] == kind]
    return found


def overlay(folder: Path, base: str) -> Path:
    """Write a folder that adds the component for load to a base."""
    made = folder / "overlay"
    made.mkdir()
    told = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [os.path.relpath(FOLDER / base, made)],
        "components": [os.path.relpath(FOLDER / "by-load", made)],
    }
    (made / "kustomization.yaml").write_text(yaml.safe_dump(told), encoding="utf-8")
    return made


@needs_kustomize
@pytest.mark.parametrize("base", ["gateway", "extproc", "yours"])
def test_what_is_built_has_the_shape_that_kubernetes_takes(base: str) -> None:
    validator = pytest.importorskip("kubernetes_validate", reason="it carries the schemas")

    made = build(FOLDER / base)

    for resource in made:
        validator.validate(resource, "1.34", strict=True)
    kinds = {resource["kind"] for resource in made}
    assert {"ConfigMap", "Deployment", "Service", "PodDisruptionBudget"} <= kinds
    assert "HorizontalPodAutoscaler" in kinds


@needs_kustomize
@pytest.mark.parametrize("base", ["gateway", "extproc"])
def test_the_configuration_has_its_checksum_in_the_name_and_pods_ask_for_that_name(
    base: str, tmp_path: Path
) -> None:
    before = build(FOLDER / base)
    copy = tmp_path / base
    shutil.copytree(FOLDER / base, copy)
    same = build(copy)
    with (copy / "gateway.toml").open("a", encoding="utf-8") as file:
        file.write("# changed\n")
    after = build(copy)

    names = [the(made, "ConfigMap")["metadata"]["name"] for made in (before, same, after)]
    assert names[0] == names[1] != names[2]
    for made in (before, after):
        [volume] = the(made, "Deployment")["spec"]["template"]["spec"]["volumes"]
        assert volume["configMap"]["name"] == the(made, "ConfigMap")["metadata"]["name"]
        parse_config(the(made, "ConfigMap")["data"]["gateway.toml"])


@needs_kustomize
@pytest.mark.parametrize("base", ["gateway", "extproc", "yours"])
def test_load_is_scaled_on_beside_cpu(base: str, tmp_path: Path) -> None:
    validator = pytest.importorskip("kubernetes_validate", reason="it carries the schemas")
    autoscaler = the(build(overlay(tmp_path, base)), "HorizontalPodAutoscaler")

    validator.validate(autoscaler, "1.34", strict=True)
    cpu, *others = autoscaler["spec"]["metrics"]
    assert cpu["resource"]["name"] == "cpu"
    assert [other["pods"]["metric"]["name"] for other in others] == offered()


@needs_kustomize
def test_your_settings_replace_ours() -> None:
    made = build(FOLDER / "yours")
    config = parse_config(the(made, "ConfigMap")["data"]["gateway.toml"])

    assert config.compression.mode == "shadow"
    assert all("shadow" in note for note in config.notes())
    assert {r["metadata"].get("namespace", "agora") for r in made} == {"agora"}


@needs_kustomize
def test_a_canary_has_pods_and_settings_of_its_own_and_a_share_of_the_traffic() -> None:
    made = build(FOLDER / "canary")
    config = parse_config(the(made, "ConfigMap")["data"]["gateway.toml"])
    base = {(each["kind"], each["metadata"]["name"]) for each in build(FOLDER / "gateway")}
    by_header, by_weight = the(made, "HTTPRoute")["spec"]["rules"]
    pods = the(made, "Deployment")["spec"]["template"]

    assert config.compression.mode == "experiment"
    assert not base & {(each["kind"], each["metadata"]["name"]) for each in made}
    assert the(made, "Service")["spec"]["selector"].items() <= pods["metadata"]["labels"].items()
    assert [each["name"] for each in by_header["backendRefs"]] == ["agora-gateway-canary"]
    assert {each["name"]: each["weight"] for each in by_weight["backendRefs"]} == {
        "agora-gateway": 90,
        "agora-gateway-canary": 10,
    }
    mounts = {each["mountPath"] for each in pods["spec"]["containers"][0]["volumeMounts"]}
    assert any(str(config.experiment.folder).startswith(mount) for mount in mounts)


def rules() -> list[dict[str, Any]]:
    text = (FOLDER / "by-load" / "adapter-rules.yaml").read_text(encoding="utf-8")
    found: list[dict[str, Any]] = yaml.safe_load(text)["rules"]
    return found


def offered() -> list[str]:
    return [rule["name"]["as"] for rule in rules()]


def test_the_component_asks_for_what_the_adapter_offers() -> None:
    text = (FOLDER / "by-load" / "kustomization.yaml").read_text(encoding="utf-8")
    [patch] = yaml.safe_load(text)["patches"]
    asked = [step["value"]["pods"]["metric"]["name"] for step in yaml.safe_load(patch["patch"])]

    assert patch["target"] == {"kind": "HorizontalPodAutoscaler"}
    assert asked == offered()


def test_the_adapters_rules_ask_for_what_is_counted() -> None:
    meter = Meter()
    meter.request("chat", "t", 2, "deadline", 0.1)
    names = {name for name, _ in meter.snapshot().samples}

    for rule in rules():
        asked = rule["metricsQuery"]
        series = set(re.findall(r"agora_\w+", asked))
        assert series == set(re.findall(r"agora_\w+", rule["seriesQuery"]))
        assert series <= names
        assert asked.count("(") == asked.count(")")
        assert "<<.LabelMatchers>>" in asked
        assert "by (<<.GroupBy>>)" in asked


def test_the_words_for_a_missed_decision_are_ours() -> None:
    [words] = re.findall(r'reason=~"([^"]*)"', rules()[0]["metricsQuery"])
    ours = {Missed.LATE, Missed.SATURATED, Missed.OPEN, Missed.PENDING, CONTINUED, NOT_ADMITTED}

    assert set(words.split("|")) == {*ours, "overloaded"}
    assert not set(words.split("|")) & {str(reason) for reason in Reason}


def test_a_pod_is_called_full_before_it_turns_requests_away() -> None:
    text = (FOLDER / "by-load" / "kustomization.yaml").read_text(encoding="utf-8")
    [patch] = yaml.safe_load(text)["patches"]
    target = yaml.safe_load(patch["patch"])[1]["value"]["pods"]["target"]["averageValue"]
    config = parse_config((FOLDER / "gateway" / "gateway.toml").read_text(encoding="utf-8"))

    assert int(target) < config.limits.concurrent * 0.7
