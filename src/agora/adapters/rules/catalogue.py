"""The rules that an edit could break, with the words a provider refuses a request in.

What only the caller can get wrong is not checked here: it is the provider's to refuse. The texts
are those users have met, read from public threads, SDKs and open
chat templates; a `{name}` in one is filled in with what was found. Texts of
the family "shape" are ours: providers word such refusals in too many ways.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: its code, whose it is, and what is said when it is broken."""

    code: str
    family: str
    says: str
    """The provider's text, a `str.format` template."""
    strict: bool = False
    """Kept by some models or older endpoints only, so not checked unless asked for."""
    checkable: bool = True
    """Whether it is checked here; the others are only known by the words of a refusal."""


@dataclass(frozen=True, slots=True)
class Broken:
    """One broken rule at one place."""

    code: str
    position: int
    """The index of the message or item; -1 is the system prompt, which stands before them."""
    error: str
    strict: bool

    def __str__(self) -> str:
        place = "the system prompt" if self.position < 0 else f"message {self.position}"
        return f"{self.code} at {place}: {self.error}"


def broke(code: str, position: int, **facts: object) -> Broken:
    """Return the rule `code` broken at `position`, its text filled in with `facts`."""
    rule = CATALOGUE[code]
    return Broken(code, position, rule.says.format(n=position, **facts), rule.strict)


_RULES = (
    # Anthropic Messages
    Rule(
        "A1",
        "anthropic",
        "messages.{n}: `tool_use` ids were found without `tool_result` blocks immediately after:"
        " {ids}. Each `tool_use` block must have a corresponding `tool_result` block in the next"
        " message.",
    ),
    Rule(
        "A2",
        "anthropic",
        "messages.{n}.content.{m}: unexpected `tool_use_id` found in `tool_result` blocks: {id}."
        " Each `tool_result` block must have a corresponding `tool_use` block in the previous"
        " message.",
    ),
    Rule(
        "A3",
        "anthropic",
        "messages.{n}.content.{m}: unexpected `tool_use_id` found in `{kind}` blocks: {id}."
        " Each `{kind}` block must have a corresponding `{call}` block before it.",
    ),
    Rule(
        "A6",
        "anthropic",
        "messages.{n}: Did not find {count} tool_result block(s) at the beginning of this message."
        " Messages following tool_use blocks must begin with a matching number of tool_result"
        " blocks.",
    ),
    Rule("A7", "anthropic", 'messages: first message must use the "user" role'),
    Rule(
        "A8",
        "anthropic",
        'messages: roles must alternate between "user" and "assistant",'
        ' but found multiple "{role}" roles in a row',
        strict=True,
    ),
    Rule("A11", "anthropic", "messages: text content blocks must be non-empty"),
    Rule(
        "A12",
        "anthropic",
        "A maximum of 4 blocks with cache_control may be provided. Found {count}.",
    ),
    Rule(
        "A13",
        "anthropic",
        "messages.{n}.content.{m}.text: cache_control cannot be set for empty text blocks",
    ),
    Rule(
        "A14",
        "anthropic",
        "messages.{n}.content.{m}: `thinking` or `redacted_thinking` blocks in the latest"
        " assistant message cannot be modified. These blocks must remain as they were in the"
        " original response.",
    ),
    Rule(
        "A15",
        "anthropic",
        "messages.{n}.content.0.type: Expected `thinking` or `redacted_thinking`, but found"
        " `{found}`. When `thinking` is enabled, a final `assistant` message must start with a"
        " thinking block (preceeding the lastmost set of `tool_use` and `tool_result` blocks).",
    ),
    Rule("A17", "anthropic", "Invalid `signature` in `thinking` block", checkable=False),
    Rule(
        "A21",
        "anthropic",
        "messages.{n}: a `system` message must follow a `user` message and be last or followed by"
        " an `assistant` message",
        strict=True,
    ),
    Rule(
        "A22",
        "anthropic",
        "messages.{n}.content.{m}: Invalid `signature` in `thinking` block. The block is bound to a"
        " different conversation. Remove the block, or set"
        ' `thinking.block_binding.prefix_mismatch_behavior` to "drop_block".',
    ),
    # OpenAI chat completions
    Rule(
        "O1",
        "openai",
        "An assistant message with 'tool_calls' must be followed by tool messages responding to"
        " each 'tool_call_id'. The following tool_call_ids did not have response messages: {ids}",
    ),
    Rule(
        "O2",
        "openai",
        "Invalid parameter: messages with role 'tool' must be a response to a preceeding message"
        " with 'tool_calls'.",
    ),
    Rule(
        "O7",
        "openai",
        "messages[{n}]: an assistant message that is sent back keeps the reasoning and the"
        " signatures it came with",
    ),
    # OpenAI Responses
    Rule("R1", "responses", "No tool output found for {kind} {call_id}."),
    Rule("R2", "responses", "No tool call found for {kind} with call_id {call_id}."),
    Rule(
        "R3",
        "responses",
        "Item '{id}' of type 'reasoning' was provided without its required following item.",
    ),
    Rule(
        "R4",
        "responses",
        "Item '{id}' of type '{kind}' was provided without its required 'reasoning' item:"
        " '{reasoning}'.",
    ),
    Rule(
        "R5",
        "responses",
        "Item '{id}' of type 'message' was provided without its required 'reasoning' item:"
        " '{reasoning}'.",
    ),
    Rule(
        "R9",
        "responses",
        "The encrypted content for item {id} could not be verified."
        " Reason: Encrypted content could not be decrypted or parsed.",
    ),
    # xAI, behind the same wire format
    Rule(
        "R10",
        "responses",
        "Could not decrypt the provided encrypted_content. Ensure the value is the unmodified"
        " encrypted_content from a previous response.",
    ),
    # Gemini
    Rule(
        "G1",
        "gemini",
        "Please ensure that function call turn comes immediately after a user turn or after a"
        " function response turn.",
    ),
    Rule(
        "G2",
        "gemini",
        "Please ensure that function response turn comes immediately after a function call turn.",
    ),
    Rule(
        "G3",
        "gemini",
        "Please ensure that the number of function response parts is equal to the number of"
        " function call parts of the function call turn.",
    ),
    Rule(
        "G5",
        "gemini",
        "Please ensure that multiturn requests end with a user turn or a function response turn.",
    ),
    Rule(
        "G6",
        "gemini",
        "Please ensure that multiturn requests alternate between user and model.",
        strict=True,
    ),
    Rule(
        "G7",
        "gemini",
        "Unable to submit request because it has an empty text parameter."
        " Add a value to the parameter and try again.",
        strict=True,
    ),
    Rule("G9", "gemini", "Invalid thought signature."),
    # Bedrock Converse
    Rule(
        "B1",
        "bedrock",
        "The number of toolResult blocks at messages.{n}.content exceeds the number of toolUse"
        " blocks of previous turn.",
    ),
    Rule(
        "B2",
        "bedrock",
        "messages.{n}.content: Conversation blocks and tool result blocks cannot be provided in"
        " the same turn.",
        strict=True,
    ),
    Rule("B3", "bedrock", "A conversation must start with a user message."),
    Rule(
        "B4",
        "bedrock",
        "Expected toolResult blocks at messages.{next}.content for the following Ids: {ids}",
    ),
    Rule("B5", "bedrock", "A conversation must alternate between user and assistant roles."),
    Rule(
        "B7",
        "bedrock",
        "The text field in the ContentBlock object at messages.{n}.content.{m} is blank."
        " Add text to the text field, and try again.",
    ),
    Rule(
        "B8",
        "bedrock",
        "The content field at messages.{n}.content.{m}.toolResult cannot be empty when status"
        " value is error.",
    ),
    Rule(
        "B9",
        "bedrock",
        "The content field in the Message object at messages.{n} is empty. Add a ContentBlock"
        " object to the content field and try again.",
    ),
    Rule(
        "B11",
        "bedrock",
        "Cache point cannot be inserted after reasoning block."
        " Please remove the invalid cache point and try again.",
        strict=True,
    ),
    # Mistral
    Rule(
        "M1",
        "mistral",
        "Not the same number of function calls and responses",
        checkable=False,
    ),
    Rule("M2", "mistral", "More tool responses than tool calls", checkable=False),
    Rule("M7", "mistral", "Unexpected role '{role}' after role '{previous}'", checkable=False),
    # Open chat templates
    Rule(
        "T1",
        "templates",
        "After the optional system message, conversation roles must alternate"
        " user/assistant/user/assistant/...",
        strict=True,
    ),
    # Shape: what every format needs before its own rules can be read
    Rule("S1", "shape", "{where}: {found} where {needed} is needed"),
    Rule("S3", "shape", "{where}.role: {found} where one of {roles} is needed"),
    Rule("S6", "shape", "messages.{n}: `{kind}` blocks can only be in `{role}` messages"),
)

CATALOGUE: Mapping[str, Rule] = MappingProxyType({rule.code: rule for rule in _RULES})
