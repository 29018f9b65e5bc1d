"""A provider's response, as the messages it adds to the trajectory."""

from dataclasses import dataclass, field
from typing import Any

from agora.adapters.rules.shape import as_list, as_object
from agora.logs.usage import Usage, read_usage
from agora.logs.values import as_count

_OUTPUT_TOKENS = ("completion_tokens", "output_tokens", "candidatesTokenCount", "outputTokens")
_CHAT_FIELDS = ("content", "tool_calls", "function_call", "refusal", "reasoning_content")


@dataclass(frozen=True, slots=True)
class Answer:
    """What a response says."""

    format: str = ""
    """The format it is in, empty if it is in none that is known."""
    messages: list[Any] = field(default_factory=list)
    id: str = ""
    output_tokens: int | None = None
    failed: bool = False
    usage: Usage | None = None


def read_answer(response: Any) -> Answer:
    """Return the answer in a response body of any of the formats."""
    body = as_object(response)
    if isinstance(body.get("body"), dict):
        # Batch files wrap the body once more.
        body = as_object(body["body"])
    if body.get("error") or body.get("type") == "error":
        return Answer(failed=True)
    usage = as_object(body.get("usage", body.get("usageMetadata")))
    billed = read_usage(usage)
    tokens = next((as_count(usage[key]) for key in _OUTPUT_TOKENS if key in usage), None)
    answer_id = body.get("id")
    found_id = answer_id if isinstance(answer_id, str) else ""
    if isinstance(body.get("choices"), list):
        return Answer("openai", _chat(body), found_id, tokens, usage=billed)
    if isinstance(body.get("output"), list):
        items = [item for item in as_list(body["output"]) if isinstance(item, dict)]
        return Answer("responses", items, found_id, tokens, usage=billed)
    if isinstance(body.get("content"), list) and body.get("role") == "assistant":
        message = {"role": "assistant", "content": body["content"]}
        said = [message] if body["content"] else []
        return Answer("anthropic", said, found_id, tokens, usage=billed)
    spoken = as_object(as_object(body.get("output")).get("message"))
    if isinstance(spoken.get("content"), list):
        return Answer("bedrock", [spoken], found_id, tokens, usage=billed)
    if isinstance(body.get("candidates"), list):
        first = as_object(next(iter(as_list(body["candidates"])), None))
        turn = as_object(first.get("content"))
        said = [turn] if isinstance(turn.get("parts"), list) else []
        return Answer("gemini", said, found_id, tokens, usage=billed)
    return Answer("", [], found_id, tokens, usage=billed)


def _chat(body: dict[str, object]) -> list[Any]:
    """Return the first choice as it would be sent back: without the fields that say nothing."""
    choices = as_list(body["choices"])
    message = as_object(as_object(choices[0]).get("message")) if choices else {}
    kept = {field: message[field] for field in _CHAT_FIELDS if message.get(field)}
    return [{"role": "assistant", **kept}] if kept else []
