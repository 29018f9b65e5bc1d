"""Envoy's messages, declared here: held against those that Envoy publishes."""

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("google.protobuf", reason="the extra extproc is not installed")

# Private: our declarations against Envoy's own.
from agora.extproc.messages import DECLARED, POOL, ProcessingRequest

NAMES = [
    f"{package}.{line}"
    for package, declared in DECLARED.items()
    for line in declared.split("\n")
    if line and not line.startswith(" ")
]


def fields(descriptor: Any) -> dict[str, tuple[object, ...]]:
    """Return each field as it is on the wire, and its `oneof`."""
    return {
        field.name: (
            field.number,
            field.type,
            field.is_repeated,
            field.message_type.full_name if field.message_type else "",
            field.enum_type.full_name if field.enum_type else "",
            field.containing_oneof.name if field.containing_oneof else "",
        )
        for field in descriptor.fields
    }


def enums(descriptor: Any) -> Iterator[tuple[str, str, int]]:
    for enum in descriptor.enum_types:
        yield from ((enum.name, value.name, value.number) for value in enum.values)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_declared_is_what_envoy_publishes(name: str) -> None:
    reason = "xds-protos is not installed"
    pytest.importorskip("envoy.service.ext_proc.v3.external_processor_pb2", reason=reason)
    from google.protobuf import descriptor_pool

    theirs = descriptor_pool.Default().FindMessageTypeByName(name)
    ours = POOL.FindMessageTypeByName(name)

    assert fields(ours).items() <= fields(theirs).items()
    assert set(enums(ours)) <= set(enums(theirs))


def test_fields_that_are_not_declared_are_passed_over_and_kept() -> None:
    # Field 10, `observability_mode`, is true, and an empty body has come to its end.
    said = b"\x22\x02\x10\x01" + b"\x50\x01"
    request = ProcessingRequest.FromString(said)

    assert request.WhichOneof("request") == "request_body"
    assert request.request_body.end_of_stream
    assert request.SerializeToString() == said
