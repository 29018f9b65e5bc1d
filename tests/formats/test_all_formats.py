import pytest

from agora.formats import FORMATS, format_named
from harness.histories import sample
from harness.histories.check_format import check_format


@pytest.mark.parametrize("format_name", FORMATS)
def test_every_format_reads_and_writes_histories_as_formats_have_to(format_name: str) -> None:
    check_format(format_named(format_name), sample(format_name, 200, seed=1))
