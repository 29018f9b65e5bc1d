from collections.abc import Iterator

import pytest
from lab.tests.backbones.loopback import Loopback


@pytest.fixture
def server() -> Iterator[Loopback]:
    made = Loopback()
    yield made
    made.close()
