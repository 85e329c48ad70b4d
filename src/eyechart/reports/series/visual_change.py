"""Distributions of visual change in test sets, and which test sets are shown together.

ImageNet-C's fixed severities are shown next to VCR's continuous ones if a report has both.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from eyechart.core.phrases import at_least, plural
from eyechart.corruptions.suites.published import VCR, WITH_LEVELS
from eyechart.humans.transfer import bare_name
from eyechart.reports.number_text import delta_v_text
from eyechart.reports.series.report import Report, TestSection
from eyechart.reports.titles import corruption_words, suite_title
from eyechart.results.ranking_comparison import shared_corruptions
from eyechart.testsets.coverage import CorruptionCoverage

FIXED, CONTINUOUS = WITH_LEVELS, VCR


@dataclass(frozen=True)
class Spread:
    """Distribution of Δv under one corruption in one test set."""

    suite: str
    corruption: str
    coverage: CorruptionCoverage

    @property
    def suite_title(self) -> str:
        """The suite's title."""
        return suite_title(self.suite)

    @property
    def percentages(self) -> list[float]:
        """The percentage of the samples in each bin of visual change."""
        # Of all samples, also of those without a measurable visual change: the sum may be below
        # 100.
        return [100 * count / max(1, self.coverage.rows) for count in self.coverage.histogram]

    def in_words(self) -> str:
        """Return the range of the samples' visual change and its most frequent value, in words."""
        counts = self.coverage.histogram
        filled = [index for index, count in enumerate(counts) if count]
        if not filled:
            return f"{self.suite_title} has no images with a known visual change"
        step = 1 / len(counts)
        top = counts.index(max(counts))
        return (
            f"{self.suite_title} has images from {delta_v_text(filled[0] * step)} to"
            f" {delta_v_text((filled[-1] + 1) * step)}, most at {delta_v_text((top + 0.5) * step)}"
        )


def histogram_of(report: Report, index: int, corruption: str) -> list[Spread]:
    """Return a corruption's distributions, with ImageNet-C before VCR.

    The result is empty for ImageNet-C if VCR's chart shows its distribution as well.
    """
    spread = _spread(report.sections[index], corruption)
    if spread is None or not spread.coverage.rows:
        return []
    partner = _partner(report, spread)
    if partner and spread.suite in FIXED:
        return []
    return sorted([spread, *partner], key=lambda spread: spread.suite in CONTINUOUS)


def covered_in(report: Report, index: int) -> list[list[Spread]]:
    """Return the coverage of a test's corruptions, with ImageNet-C before VCR.

    The result is empty for ImageNet-C if VCR's chart shows its coverage as well.
    """
    section = report.sections[index]
    spreads = [_spread(section, name) for name in section.corruptions]
    measured = [spread for spread in spreads if spread is not None]
    partners = [partner for spread in measured for partner in _partner(report, spread)]
    if section.suite not in CONTINUOUS:
        # Already shown next to VCR's.
        return [] if len(partners) == len(measured) else [measured]
    return [spreads for spreads in (partners, measured) if spreads]


def covered_in_words(spreads: list[Spread]) -> str:
    """Return which corruptions cover the least and the most of the range of Δv, in words."""
    most = max(spreads, key=lambda spread: spread.coverage.paper)
    fewest = min(spreads, key=lambda spread: spread.coverage.paper)
    return (
        f"{spreads[0].suite_title} covers from {fewest.coverage.paper:.1%} of visual change"
        f" ({corruption_words(fewest.corruption)}) to {most.coverage.paper:.1%}"
        f" ({corruption_words(most.corruption)})"
    )


def _spread(section: TestSection, corruption: str) -> Spread | None:
    coverage = section.runs[0].coverage.get(corruption)
    return None if coverage is None else Spread(section.suite, corruption, coverage)


def _partner(report: Report, spread: Spread) -> list[Spread]:
    """Return the counterpart in ImageNet-C of a corruption in VCR, or vice versa."""
    name = bare_name(spread.corruption)
    wanted = CONTINUOUS if spread.suite in FIXED else FIXED if spread.suite in CONTINUOUS else ()
    for section in report.sections:
        if name in shared_corruptions() and section.suite in wanted:
            for corruption in section.corruptions:
                partner = _spread(section, corruption)
                if bare_name(corruption) == name and partner is not None:
                    return [partner]
    return []


@dataclass(frozen=True, eq=False)
class SpreadGrid:
    """Test sets shown together, with the distributions of their common corruptions by suite title.

    `parts` are the report's tests that use these test sets. Names of corruptions omit their suite.
    """

    parts: tuple[TestSection, ...]
    suites: tuple[str, ...]
    corruptions: Mapping[str, Mapping[str, Spread]]

    @property
    def test_sets(self) -> str:
        """What a bin needs to be covered, and the size of the test sets, as sentences."""
        return " ".join(self._test_set(title) for title in self.suites)

    def _test_set(self, title: str) -> str:
        spreads = [by_suite[title] for by_suite in self.corruptions.values() if title in by_suite]
        # ImageNet-C may consist of two tests, the second with its extra corruptions.
        runs = [
            section.runs[0]
            for section in self.parts
            if _title(section, len(self.parts) == 1) == title
        ]
        fewest = at_least([run.fewest_in_covered for run in runs], "sample")
        samples = _range_text([spread.coverage.rows for spread in spreads], "sample")
        images = _range_text([run.results.images.used for run in runs], "image")
        return f"{title}: {fewest} in a covered bin, {samples} per corruption, {images}."


def spread_grids(report: Report) -> list[SpreadGrid]:
    """Return the pair of ImageNet-C and VCR if the report has both, then each test set alone."""
    fixed = [section for section in report.sections if section.suite in FIXED]
    continuous = [section for section in report.sections if section.suite in CONTINUOUS]
    grids = [_grid((section,)) for section in report.sections]
    return [_grid((*fixed, *continuous)), *grids] if fixed and continuous else grids


def _grid(parts: tuple[TestSection, ...]) -> SpreadGrid:
    spreads: dict[str, dict[str, Spread]] = {}
    titles = {id(section): _title(section, len(parts) == 1) for section in parts}
    for section in parts:
        for name in section.corruptions:
            spread = _spread(section, name)
            if spread is not None:
                spreads.setdefault(bare_name(name), {})[titles[id(section)]] = spread
    suites = tuple(dict.fromkeys(titles.values()))
    shared = {name: by_suite for name, by_suite in spreads.items() if len(by_suite) == len(suites)}
    return SpreadGrid(parts, suites, shared)


def _range_text(counts: Sequence[int], word: str) -> str:
    low, high = min(counts), max(counts)
    numbers = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    return f"{numbers} {plural(high, word)}"


def _title(section: TestSection, alone: bool) -> str:
    # Beside other suites, the extra corruptions are shown with the suite that they extend.
    return suite_title(FIXED[0] if section.suite in FIXED and not alone else section.suite)
