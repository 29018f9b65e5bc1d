from collections.abc import Iterator

import pytest

from agora_lab import on_ray


@pytest.fixture(scope="package", autouse=True)
def ray() -> Iterator[None]:
    """Start Ray once: it takes seconds."""
    with on_ray.connect(cpus=2):
        yield
