"""Every rule a provider keeps, with the words it refuses a request in.

The texts are those users have met, read from public threads, SDKs and open
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
    """Whether messages alone can show that it is broken."""


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


def broke_saying(says: str, code: str, position: int) -> Broken:
    """Return the rule `code` broken at `position`, for a rule with more than one text."""
    return Broken(code, position, says.format(n=position), CATALOGUE[code].strict)


BLANK_TEXT = "messages: text content blocks must contain non-whitespace text"
EMPTY_MESSAGE = (
    "messages.{n}: all messages must have non-empty content"
    " except for the optional final assistant message"
)

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
        "A4",
        "anthropic",
        "messages.{n}.content.{m}: each tool_use must have a single result."
        " Found multiple `tool_result` blocks with id: {id}",
    ),
    Rule("A5", "anthropic", "messages.{n}.content.{m}: `tool_use` ids must be unique"),
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
    Rule(
        "A9",
        "anthropic",
        "This model does not support assistant message prefill."
        " The conversation must end with a user message.",
        strict=True,
    ),
    Rule(
        "A10",
        "anthropic",
        "messages: final assistant content cannot end with trailing whitespace",
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
    Rule(
        "A16",
        "anthropic",
        "messages.{n}.content.{m}: When thinking is disabled, an `assistant` message in the final"
        " position cannot contain `thinking`.",
    ),
    Rule("A17", "anthropic", "Invalid `signature` in `thinking` block", checkable=False),
    Rule(
        "A18",
        "anthropic",
        "toolConfig field must be defined when using toolUse and toolResult content blocks",
    ),
    Rule("A19", "anthropic", "Tool reference '{name}' not found in available tools"),
    Rule("A20", "anthropic", "prompt_too_long", checkable=False),
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
        "O3",
        "openai",
        "Invalid 'messages[{n}].tool_calls': empty array."
        " Expected an array with minimum length 1, but got an empty array instead.",
    ),
    Rule(
        "O4",
        "openai",
        "Invalid 'messages': empty array."
        " Expected an array with minimum length 1, but got an empty array instead.",
    ),
    Rule(
        "O5",
        "openai",
        "Invalid type for 'messages[{n}].content': expected one of a string or array of objects,"
        " but got {found} instead.",
    ),
    Rule(
        "O6",
        "openai",
        "Unsupported value: 'messages[{n}].role' does not support '{role}' with this model.",
        strict=True,
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
        "R6",
        "responses",
        "The encrypted content for item {id} could not be verified. Reason: Encrypted content"
        " organization_id did not match the target organization.",
        checkable=False,
    ),
    Rule(
        "R7",
        "responses",
        "`phase`, compaction items and the calls of built-in tools go back unchanged",
        checkable=False,
    ),
    Rule(
        "R8",
        "responses",
        "With `previous_response_id` or `conversation` the server keeps the earlier items",
        checkable=False,
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
    Rule(
        "R11",
        "responses",
        "Could not decode the compaction blob. Ensure it is unmodified from the compact response.",
        strict=True,
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
        "G4",
        "gemini",
        "Function call is missing a thought_signature in functionCall parts. This is required for"
        " tools to work correctly, and missing thought_signature may lead to degraded model"
        " performance. Additional data, function call `{name}` , position {place}. Please refer to"
        " https://ai.google.dev/gemini-api/docs/thought-signatures for more details.",
        strict=True,
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
    Rule("G8", "gemini", "Corrupted thought signature.", strict=True),
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
    Rule("B6", "bedrock", "The {kind} blocks at messages.{n}.content contain duplicate Ids: {ids}"),
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
        "B10",
        "bedrock",
        "messages.{n}.content: Conversation blocks and tool use blocks cannot be provided in"
        " the same turn.",
        strict=True,
    ),
    Rule(
        "B11",
        "bedrock",
        "Cache point cannot be inserted after reasoning block."
        " Please remove the invalid cache point and try again.",
        strict=True,
    ),
    # Mistral
    Rule("M1", "mistral", "Not the same number of function calls and responses"),
    Rule("M2", "mistral", "More tool responses than tool calls"),
    Rule("M3", "mistral", "Unexpected role 'user' after role 'tool'", strict=True),
    Rule(
        "M4",
        "mistral",
        "Expected last role User or Tool (or Assistant with prefix) for serving but got assistant",
    ),
    Rule(
        "M5",
        "mistral",
        "Tool call id was {id} but must be a-z, A-Z, 0-9, with a length of 9.",
        strict=True,
    ),
    Rule("M6", "mistral", "Duplicate tool call id {id} in {place}"),
    Rule("M7", "mistral", "Unexpected role '{role}' after role '{previous}'"),
    Rule("M8", "mistral", "Tool call id must be a non-empty string other than 'null'."),
    # DeepSeek
    Rule(
        "D1",
        "deepseek",
        "Missing `reasoning_content` field in the assistant message at message index {n}",
    ),
    Rule(
        "D2",
        "deepseek",
        "The `reasoning_content` in the thinking mode must be passed back to the API.",
        strict=True,
    ),
    # Kimi
    Rule(
        "K1",
        "kimi",
        "thinking is enabled but reasoning_content is missing in assistant tool call message at"
        " index {n}",
        strict=True,
    ),
    Rule(
        "K2",
        "kimi",
        "messages[{n}]: a model that preserves its thinking needs the `reasoning_content` of every"
        " assistant message",
        strict=True,
    ),
    # Open chat templates
    Rule(
        "T1",
        "templates",
        "After the optional system message, conversation roles must alternate"
        " user/assistant/user/assistant/...",
        strict=True,
    ),
    Rule("T2", "templates", "System message must be at the beginning.", strict=True),
    Rule("T3", "templates", "No user query found in messages.", strict=True),
    Rule(
        "T4",
        "templates",
        "Message has tool role, but there was no previous assistant message with a tool call!",
        strict=True,
    ),
    Rule("T5", "templates", "Tool message outside of assistant", strict=True),
    Rule("T6", "templates", "This model only supports single tool-calls at once!", strict=True),
    Rule("T7", "templates", "Tool messages need a resolvable tool name", strict=True),
    # Texts
    Rule("X1", "transcript", "no role mark was found: [SYSTEM], [USER] or [ASSISTANT]"),
    Rule("X2", "react", "no line begins with Thought, Action or Observation"),
    # Shape: what every format needs before its own rules can be read
    Rule("S1", "shape", "{where}: {found} where {needed} is needed"),
    Rule("S2", "shape", "{where}: {found} where an object is needed"),
    Rule("S3", "shape", "{where}.role: {found} where one of {roles} is needed"),
    Rule("S4", "shape", "{where}: {found} where a string or a list of objects is needed"),
    Rule("S5", "shape", "{where}: at least one is required"),
    Rule("S6", "shape", "messages.{n}: `{kind}` blocks can only be in `{role}` messages"),
    Rule("S7", "shape", "{where}: {found} where {needed} is needed"),
    Rule(
        "S8",
        "shape",
        "{where}.role: {found} is not one of the known roles {roles}",
        strict=True,
    ),
)

CATALOGUE: Mapping[str, Rule] = MappingProxyType({rule.code: rule for rule in _RULES})
