import pytest

from agora.core import Request

# Private: the shipped list of models is data, whose public face is one flag.
from agora.core.binding import binding_of, binds, shipped_bindings

BOUND = (
    "claude-fable-5-1",
    "claude-fable-5-2",
    "claude-mythos-5-2",
    "claude-opus-5-5",
    "claude-sonnet-5-5",
    "claude-haiku-5-5",
)


@pytest.mark.parametrize("model", BOUND)
def test_a_listed_model_binds_however_a_platform_writes_its_name(model: str) -> None:
    dotted = model[:-2] + "." + model[-1]
    for name in (
        model,
        dotted,
        f"{model}-20261001",
        f"anthropic/{model}",
        f"bedrock/us.anthropic.{model}-20261001-v1:0",
        f"vertex_ai/{model}@20261001",
        model.upper(),
    ):
        assert binds(name), name
        found = binding_of(name)
        assert found is not None
        assert found.model == model


def test_every_binding_says_what_a_failed_check_does_since_when_and_where_that_is_said() -> None:
    for model, binding in shipped_bindings().items():
        assert binding.model == model
        assert binding.failed_check in ("error", "drop", "record")
        assert len(binding.since) in (0, len("2026-08-31"))
        assert binding.source


def test_a_model_that_only_records_loses_nothing_by_an_edit() -> None:
    found = binding_of("claude-mythos-5-1")

    assert found is not None
    assert found.failed_check == "record"
    assert not binds("claude-mythos-5-1")


@pytest.mark.parametrize(
    "model", ["claude-opus-6", "claude-sonnet-5-7", "claude-nova-12-1-20270101", "claude-next"]
)
def test_a_newer_claude_model_that_is_not_listed_is_taken_to_bind_and_refuse(model: str) -> None:
    found = binding_of(model)

    assert found is not None
    assert found.failed_check == "error"


@pytest.mark.parametrize("model", ["gpt-6-astra", "gpt-6.1-sol", "openai/gpt-6", "gpt-7-nova"])
def test_a_newer_gpt_model_is_taken_to_bind_and_drop(model: str) -> None:
    found = binding_of(model)

    assert found is not None
    assert found.failed_check == "drop"


@pytest.mark.parametrize(
    "model",
    [
        *("gpt-5.6-sol", "gpt-4o", "gpt-oss-120b", "o3", "gpt"),
        "claude-opus-5",
        "claude-fable-5",
        "claude-sonnet-4-5-20250929",
        "claude-3-7-sonnet-latest",
        "claude-2",
        "gpt-5.5",
        "gemini-3-pro",
        "",
        None,
    ],
)
def test_older_claude_models_and_those_of_others_do_not_bind(model: str | None) -> None:
    assert not binds(model)


def test_whoever_knows_better_than_the_name_can_say_so() -> None:
    request = Request(messages=[], format="anthropic", model="claude-fable-5-1")

    assert request.is_bound
    assert not Request(messages=[], format="anthropic", model="m", bound=None).is_bound
    assert Request(messages=[], format="anthropic", model="m", bound=True).is_bound
