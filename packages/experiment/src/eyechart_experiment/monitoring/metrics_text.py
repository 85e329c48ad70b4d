"""Metrics of a running study in Prometheus' text format, version 0.0.4."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from eyechart_experiment.monitoring.study_monitor import StudyMonitor

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Sample = tuple[Mapping[str, str], float]


@dataclass(frozen=True)
class Metric:
    """A metric with its samples, each with its labels."""

    name: str
    help: str
    samples: tuple[Sample, ...]

    def lines(self) -> Iterable[str]:
        """Yield the metric's lines."""
        yield f"# HELP {self.name} {self.help}"
        # Never a counter, which may only grow: trials on their way can expire.
        yield f"# TYPE {self.name} gauge"
        for labels, value in self.samples:
            inner = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items())
            yield f"{self.name}{{{inner}}} {value:g}" if inner else f"{self.name} {value:g}"


def metrics_text(monitor: StudyMonitor) -> str:
    """Return all metrics of a study."""
    metrics = [
        Metric("eyechart_study_open", "Whether new participants can join.",
               (({}, float(monitor.is_open)),)),
        Metric("eyechart_sessions", "Sessions by outcome.",
               _by("outcome", monitor.outcomes)),
        Metric("eyechart_excluded_sessions", "Sessions that violate a quality rule.",
               _by("rule", monitor.excluded)),
        Metric("eyechart_responses", "Main responses that are there or on their way.",
               tuple(({"stimuli": group.name}, group.taken) for group in monitor.groups)),
        Metric("eyechart_responses_wanted", "Main responses wanted.",
               tuple(({"stimuli": group.name}, group.wanted) for group in monitor.groups)),
        Metric("eyechart_stimuli_full", "Main stimuli with all wanted responses.",
               tuple(({"stimuli": group.name}, group.full) for group in monitor.groups)),
        Metric("eyechart_responses_last_hour", "Main responses in the last hour.",
               (({}, monitor.hourly[-1]),)),
        Metric("eyechart_cost", "Pay of all sessions that ended, with the platform's fee.",
               (({"currency": monitor.currency}, float(monitor.cost)),)),
    ]  # fmt: skip
    # Left out rather than 0, which would read as perfect timing.
    if monitor.timing.flagged is not None:
        text = "Fraction of the newest main responses with a timing flag."
        metrics.append(Metric("eyechart_timing_flagged", text, (({}, monitor.timing.flagged),)))
    # The format demands a line feed after the last line too.
    return "\n".join(line for metric in metrics for line in metric.lines()) + "\n"


def _by(label: str, counts: Mapping[str, int]) -> tuple[Sample, ...]:
    return tuple(({label: name}, count) for name, count in counts.items())


def _escaped(text: str) -> str:
    # Backslashes first, or those of the other escapes would be doubled.
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
