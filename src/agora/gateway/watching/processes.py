"""What the system says of the processes that count together."""

import os
from collections.abc import Iterable
from pathlib import Path

from agora.errors import MissingExtraError

try:
    from prometheus_client import CollectorRegistry, ProcessCollector
    from prometheus_client.metrics_core import Metric
except ImportError as error:
    raise MissingExtraError(__name__, "gateway") from error

SHARED = "PROMETHEUS_MULTIPROC_DIR"
"""The variable with the folder in which processes of one gateway count."""


class Processes:
    """What the system says of this process, or of all that share one port: CPU, memory, files.

    One process alone cannot be asked about the others through the files they count in, so the
    system is: `prometheus_client`'s collector reads one process, and here they are summed up.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        registry.register(self)

    def collect(self) -> Iterable[Metric]:
        """Return one metric per figure; none where the system has no /proc."""
        found: dict[str, Metric] = {}
        for pid in _pids():
            collector = ProcessCollector(
                registry=CollectorRegistry(),
                pid=lambda pid=pid: pid,  # type: ignore[misc]
            )
            for metric in collector.collect():
                if metric.name not in found:
                    found[metric.name] = metric
                    continue
                old, new = found[metric.name].samples[0], metric.samples[0]
                smallest = metric.name in ("process_start_time_seconds", "process_max_fds")
                value = min(old.value, new.value) if smallest else old.value + new.value
                found[metric.name].samples[0] = old._replace(value=value)
        return found.values()


def _pids() -> list[str]:
    """Return the processes to ask about: this one, or those that count in the shared folder."""
    folder = os.environ.get(SHARED)
    if not folder:
        return ["self"]
    written = {path.stem.rpartition("_")[2] for path in Path(folder).glob("*_*.db")}
    return sorted(pid for pid in written if pid.isdigit() and Path("/proc", pid).exists())
