import pytest

# Private: which refusals name the history: providers' own words.
from agora.formats.refusals import BINDING_RULES, names_history_rule

BOUND = (
    "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a "
    'different conversation. Remove the block, or set \\"drop_block\\".'
)


@pytest.mark.parametrize(
    ("said", "rule"),
    [
        ('{"error": {"message": "messages: text content blocks must be non-empty"}}', "A11"),
        ('{"error": {"message": "messages.1: Invalid `signature` in `thinking` block"}}', "A17"),
        ('{"error": {"message": "Invalid API key"}}', ""),
        ("", ""),
    ],
)
def test_a_refusal_names_the_rule_that_was_broken(said: str, rule: str) -> None:
    assert names_history_rule(said.encode()) == rule


def test_thinking_that_is_refused_is_known_whatever_the_text_goes_on_to_say() -> None:
    assert names_history_rule(BOUND.encode()) in BINDING_RULES
