import pytest

from agora.formats import FORMATS, format_named
from harness.histories import sample
from harness.histories.check_adapter import check_adapter


@pytest.mark.parametrize("format_name", FORMATS)
def test_every_adapter_reads_and_writes_histories_as_adapters_have_to(format_name: str) -> None:
    check_adapter(format_named(format_name), sample(format_name, 200, seed=1))
