"""A gateway's metrics read back: the samples of one look, as values."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from agora.errors import MissingExtraError

try:
    from prometheus_client.parser import text_string_to_metric_families
except ImportError as error:
    raise MissingExtraError(__name__, "gateway") from error


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The samples of one look at a gateway."""

    samples: Mapping[tuple[str, frozenset[tuple[str, str]]], float] = field(default_factory=dict)

    def total(self, name: str, **labels: str) -> float:
        """Return the sum of the samples of that name that have these labels."""
        return sum(value for _, value in self._of(name, labels))

    def by(self, name: str, label: str, **labels: str) -> dict[str, float]:
        """Return the sums by the values of one label."""
        sums: dict[str, float] = {}
        for found, value in self._of(name, labels):
            key = found.get(label, "")
            sums[key] = sums.get(key, 0.0) + value
        return sums

    def net_dollars(self, **labels: str) -> float:
        """Return what compressing saved, less what it cost."""
        return self.total("agora_dollars_gained_total", **labels) - self.total(
            "agora_dollars_lost_total", **labels
        )

    def quantile(self, name: str, share: float, **labels: str) -> float | None:
        """Return the bucket bound that `share` of a histogram's samples do not exceed, if any."""
        bounds = sorted(
            (float(le), n) for le, n in self.by(f"{name}_bucket", "le", **labels).items()
        )
        if not bounds or bounds[-1][1] <= 0:
            return None
        wanted = share * bounds[-1][1]
        return next(bound for bound, count in bounds if count >= wanted)

    def since(self, before: "Snapshot") -> "Snapshot":
        """Return what was added after `before`; a counter that fell was reset."""
        added = {}
        for key, value in self.samples.items():
            old = before.samples.get(key, 0.0)
            added[key] = value - old if value >= old else value
        return Snapshot(added)

    def _of(self, name: str, labels: Mapping[str, str]) -> Iterator[tuple[dict[str, str], float]]:
        wanted = labels.items()
        for (sample, found), value in self.samples.items():
            if sample == name and wanted <= found:
                yield dict(found), value


def read_metrics(text: str) -> Snapshot:
    """Return the samples in a text that Prometheus could read.

    Raises:
        ValueError: it is no such text.
    """
    samples: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            samples[sample.name, frozenset(sample.labels.items())] = sample.value
    return Snapshot(samples)
