"""A provider's response, as the messages it adds to the trajectory."""

from dataclasses import dataclass, field
from typing import Any

from agora.formats.base import as_object
from agora.formats.registry import formats
from agora.formats.usage import Usage, read_usage


@dataclass(frozen=True, slots=True)
class Answer:
    """The content of a response."""

    format: str = ""
    """The format it is in, empty if it is in none that is known."""
    messages: list[Any] = field(default_factory=list)
    id: str = ""
    failed: bool = False
    usage: Usage | None = None


def read_answer(response: Any) -> Answer:
    """Return the answer in a response body of any of the formats."""
    body = as_object(response)
    if isinstance(body.get("body"), dict):
        # Batch files wrap the body twice.
        body = as_object(body["body"])
    if body.get("error") or body.get("type") == "error":
        return Answer(failed=True)
    usage = as_object(body.get("usage", body.get("usageMetadata")))
    billed = read_usage(usage)
    answer_id = body.get("id")
    found_id = answer_id if isinstance(answer_id, str) else ""
    for format in formats():
        messages = format.answer(body)
        if messages is not None:
            return Answer(format.name, messages, found_id, usage=billed)
    return Answer("", [], found_id, usage=billed)
