import pickle

import pytest

from agora.errors import (
    AgoraError,
    IllegalMessagesError,
    MissingExtraError,
    ParseError,
    PriceSheetError,
    RecallError,
    ScoreError,
    SettingError,
    UnknownFormatError,
)

ERRORS = [
    ParseError(7, "is a tool result whose call is missing"),
    UnknownFormatError("there is no format 'soap'", ["openai", "transcript"]),
    SettingError("schedule", "'every_cal'", "a schedule", ("every_call",)),
    PriceSheetError("mine", "has read 2"),
    ScoreError("Lexical", "2 scores for 3 steps"),
    RecallError(9, 4),
    RecallError(1, 0),
    IllegalMessagesError("the messages", ["O1 at message 3"]),
    MissingExtraError("agora.cli", "cli"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_reads_the_same_after_pickling(error: AgoraError) -> None:
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    assert len(str(error)) > 15


def test_a_missing_extra_says_how_to_get_it() -> None:
    assert "pip install '.[cli]' (in a checkout)" in str(MissingExtraError("agora.cli", "cli"))
    assert issubclass(MissingExtraError, ImportError)
