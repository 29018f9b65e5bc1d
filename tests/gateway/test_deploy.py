from pathlib import Path
from typing import Any

import pytest

from agora.gateway.config import Config, parse_config

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
DEPLOY = Path(__file__).parents[2] / "deploy"


GATEWAY = DEPLOY / "kustomize" / "gateway"


def resources() -> list[dict[str, Any]]:
    text = (GATEWAY / "gateway.yaml").read_text(encoding="utf-8")
    return [resource for resource in yaml.safe_load_all(text) if resource]


def the(kind: str) -> dict[str, Any]:
    [found] = [resource for resource in resources() if resource["kind"] == kind]
    return found


def pod() -> dict[str, Any]:
    spec: dict[str, Any] = the("Deployment")["spec"]["template"]["spec"]
    return spec


def container() -> dict[str, Any]:
    [found] = pod()["containers"]
    result: dict[str, Any] = found
    return result


def config() -> Config:
    return parse_config((GATEWAY / "gateway.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("version", ["1.29", "1.34"])
def test_every_resource_has_the_shape_that_kubernetes_takes(version: str) -> None:
    validator = pytest.importorskip("kubernetes_validate", reason="it carries the schemas")

    for resource in resources():
        validator.validate(resource, version, strict=True)


def test_a_misspelt_field_would_be_found() -> None:
    validator = pytest.importorskip("kubernetes_validate", reason="it carries the schemas")
    deployment = the("Deployment")
    deployment["spec"]["template"]["spec"]["containers"][0]["readynessProbe"] = {}

    with pytest.raises(validator.ValidationError):
        validator.validate(deployment, "1.34", strict=True)


def test_the_probes_ask_for_what_the_gateway_answers() -> None:
    probes = container()

    assert probes["livenessProbe"]["httpGet"]["path"] == "/livez"
    assert probes["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert probes["startupProbe"]["httpGet"]["path"] == "/readyz"
    [port] = probes["ports"]
    assert port["containerPort"] == config().listen_port


def test_probes_and_scrapers_which_call_by_address_are_let_in() -> None:
    assert config().takes_host("10.1.2.3:8484")
    assert config().takes_host("agora-gateway.agora.svc")
    assert not config().takes_host("elsewhere.test")


def test_the_configuration_in_the_manifest_is_one_without_notes() -> None:
    assert config().notes() == ()
    assert config().listen_host == "0.0.0.0"  # noqa: S104


def test_there_is_time_to_drain_before_the_kill() -> None:
    limits = config().limits
    unready = container()["readinessProbe"]

    assert pod()["terminationGracePeriodSeconds"] >= limits.drain_seconds + 5
    assert limits.settle_seconds > unready["periodSeconds"] * unready["failureThreshold"]


def test_the_pod_has_no_rights_it_does_not_need() -> None:
    assert pod()["securityContext"]["runAsNonRoot"] is True
    assert pod()["automountServiceAccountToken"] is False
    assert container()["securityContext"]["readOnlyRootFilesystem"] is True
    assert container()["securityContext"]["allowPrivilegeEscalation"] is False
    assert container()["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_everything_that_selects_pods_selects_these() -> None:
    labels = the("Deployment")["spec"]["template"]["metadata"]["labels"].items()

    assert the("Deployment")["spec"]["selector"]["matchLabels"].items() <= labels
    assert the("Service")["spec"]["selector"].items() <= labels
    assert the("PodDisruptionBudget")["spec"]["selector"]["matchLabels"].items() <= labels
    assert the("NetworkPolicy")["spec"]["podSelector"]["matchLabels"].items() <= labels
    target = the("HorizontalPodAutoscaler")["spec"]["scaleTargetRef"]
    assert target["name"] == the("Deployment")["metadata"]["name"]


def test_a_disruption_leaves_pods_to_serve() -> None:
    least = the("HorizontalPodAutoscaler")["spec"]["minReplicas"]

    assert least > the("PodDisruptionBudget")["spec"]["maxUnavailable"]


def test_the_container_runs_the_gateway_without_root_and_is_asked_to_stop_gently() -> None:
    lines = (DEPLOY / "Containerfile").read_text(encoding="utf-8").splitlines()
    said = dict(line.split(" ", 1) for line in lines if line and line[0].isupper())

    assert said["ENTRYPOINT"] == '["agora", "serve"]'
    # The filter runs from the same image, and so does what tells a collector.
    installs = next(line for line in lines if "pip install" in line)
    assert "[cli,gateway,extproc,telemetry]" in installs
    assert said["USER"].startswith(str(pod()["securityContext"]["runAsUser"]))
    assert said["STOPSIGNAL"] == "SIGTERM"
    assert said["EXPOSE"] == str(config().listen_port)


EXTPROC = DEPLOY / "kustomize" / "extproc"


def filter_resources() -> list[dict[str, Any]]:
    text = (EXTPROC / "extproc.yaml").read_text(encoding="utf-8")
    return [resource for resource in yaml.safe_load_all(text) if resource]


def test_the_filters_resources_have_the_shape_that_kubernetes_takes() -> None:
    validator = pytest.importorskip("kubernetes_validate", reason="it carries the schemas")

    for resource in filter_resources():
        validator.validate(resource, "1.34", strict=True)


@pytest.mark.parametrize("folder", [GATEWAY, EXTPROC], ids=["gateway", "extproc"])
def test_a_changed_file_rolls_the_pods(folder: Path) -> None:
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text(encoding="utf-8"))
    [made] = kustomization["configMapGenerator"]
    found = resources() if folder is GATEWAY else filter_resources()
    [deployment] = [r for r in found if r["kind"] == "Deployment"]
    [volume] = deployment["spec"]["template"]["spec"]["volumes"]

    # The generator puts a hash of the files behind the name, in both places.
    assert volume["configMap"]["name"] == made["name"]
    assert "generatorOptions" not in kustomization
    for file in (*kustomization["resources"], *made["files"]):
        assert (folder / file).is_file()


def test_the_filters_pod_has_no_rights_it_does_not_need() -> None:
    [deployment] = [r for r in filter_resources() if r["kind"] == "Deployment"]
    spec = deployment["spec"]["template"]["spec"]
    [only] = spec["containers"]

    assert spec["securityContext"] == pod()["securityContext"]
    assert only["securityContext"] == container()["securityContext"]
    assert spec["automountServiceAccountToken"] is False


def test_the_filter_has_time_to_drain_and_envoy_time_to_wait() -> None:
    config = parse_config((EXTPROC / "gateway.toml").read_text(encoding="utf-8"))
    [deployment] = [r for r in filter_resources() if r["kind"] == "Deployment"]
    grace = deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]

    assert grace > config.limits.settle_seconds + config.limits.drain_seconds
    policies = (DEPLOY / "envoy" / "envoy-gateway.yaml").read_text(encoding="utf-8")
    kinds = {each["kind"]: each for each in yaml.safe_load_all(policies)}
    policy, traffic = kinds["EnvoyExtensionPolicy"], kinds["ClientTrafficPolicy"]
    [processor] = policy["spec"]["extProc"]
    assert processor["failOpen"] is True
    assert processor["processingMode"]["allowModeOverride"] is True
    waits = float(processor["messageTimeout"].removesuffix("s"))
    assert waits * 1_000 > config.limits.restore_deadline_ms
    assert traffic["spec"]["connection"]["bufferLimit"] == "32Mi"
    assert config.limits.body_bytes == 32 << 20


def test_in_front_of_an_endpoint_picker_the_filter_comes_first() -> None:
    config = yaml.safe_load((DEPLOY / "envoy" / "llm-d.yaml").read_text(encoding="utf-8"))
    [listener] = config["static_resources"]["listeners"]
    [manager] = listener["filter_chains"][0]["filters"]
    names = [f["name"] for f in manager["typed_config"]["http_filters"]]

    assert names.index("agora") < names.index("endpoint_picker") < len(names) - 1
