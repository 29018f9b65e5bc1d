import string

import pytest

from agora.errors import UnknownFormatError
from agora.formats import CATALOGUE, RuleViolation, validate
from agora.formats.base import broke


def test_a_rule_stands_under_its_own_code_and_cannot_be_replaced() -> None:
    assert all(code == rule.code for code, rule in CATALOGUE.items())
    with pytest.raises(TypeError):
        CATALOGUE["A1"] = CATALOGUE["A2"]  # type: ignore[index]


@pytest.mark.parametrize("code", CATALOGUE)
def test_a_text_says_all_it_was_told(code: str) -> None:
    names = {name for _, name, _, _ in string.Formatter().parse(CATALOGUE[code].says) if name}
    facts = {name: f"<{name}>" for name in names - {"n"}}

    broken = broke(code, 7, **facts)

    assert broken.position == 7
    assert broken.strict is CATALOGUE[code].strict
    assert all(fact in broken.error for fact in facts.values())
    assert "{" not in broken.error


def test_a_broken_rule_reads_as_a_sentence_with_its_place() -> None:
    assert str(RuleViolation("A7", 0, "no", strict=False)) == "A7 at message 0: no"
    assert str(RuleViolation("A11", -1, "no", strict=False)) == "A11 at the system prompt: no"


def test_a_format_without_rules_is_refused_by_name() -> None:
    with pytest.raises(UnknownFormatError, match=r"'cohere'.*openai, responses, anthropic"):
        validate([], format="cohere")
