"""`eyechart experiment simulate`: simulated participants in a copy of a study."""

import shlex
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from eyechart.cli.shared.derived_options import Only, derived_options, examples
from eyechart.core.errors import UsageError
from eyechart.core.options import Option
from eyechart_experiment.cli.serve import StudyPath
from eyechart_experiment.design.psychometric import GROUP, Psychometric


@dataclass(frozen=True, kw_only=True)
class SimulationSettings:
    """Settings of a simulation, such as the number of participants and the output folder."""

    out: Annotated[
        Path,
        Option(
            help="Folder for the copy of the study.",
            group="Output",
            metavar="FOLDER",
            path="folder",
        ),
    ]
    participants: Annotated[
        int, Option(help="Number of simulated participants.", group=GROUP, minimum=1)
    ] = 3
    spammers: Annotated[
        int, Option(help="Number of participants that respond at random.", group=GROUP, minimum=0)
    ] = 0
    droppers: Annotated[
        int,
        Option(
            help="Number of participants that reload the page instead of giving half of their"
            " incorrect responses.",
            group=GROUP,
            minimum=0,
        ),
    ] = 0
    leavers: Annotated[
        int,
        Option(
            help="Number of participants that leave before the end; with --fast.",
            group=GROUP,
            minimum=0,
            is_advanced=True,
        ),
    ] = 0
    cheaters: Annotated[
        int,
        Option(
            help="Number of participants that respond at random at the end, or send forged time"
            " stamps; with --fast.",
            group=GROUP,
            minimum=0,
            is_advanced=True,
        ),
    ] = 0
    fast: Annotated[
        bool, Option(help="Simulate without a browser and without waiting.", group=GROUP)
    ] = False
    seed: Annotated[int, Option(help="Random seed.", group="Compute", minimum=0)] = 0

    def check(self) -> None:
        """Raise a UsageError if the kinds of participants do not fit together."""
        n_odd = self.spammers + self.droppers + self.leavers + self.cheaters
        if n_odd > self.participants:
            raise UsageError(
                f"--spammers, --droppers, --leavers and --cheaters must be at most"
                f" {self.participants} (--participants), got {n_odd}."
            )
        if self.leavers and not self.fast:
            raise UsageError("--leavers needs --fast: robots in a browser stay to the end.")
        if self.cheaters and not self.fast:
            raise UsageError("--cheaters needs --fast, because a page never sends forged stamps.")


@examples(
    "eyechart experiment simulate study --participants 20 --out simulated",
    "eyechart experiment simulate study --spammers 3 --fast --out simulated",
)
@derived_options
def simulate(
    study: StudyPath,
    settings: SimulationSettings,
    curve: Annotated[Psychometric, Only("middle", "width", "lapse")],
) -> None:
    """Simulate participants with a known psychometric curve in a copy of a study."""
    from eyechart.cli.shared.progress import ProgressBars
    from eyechart_experiment.simulate.robots import kinds_of
    from eyechart_experiment.simulate.simulation import (
        copy_study,
        excluded_by_kind,
        find_browser,
        simulate_fast,
        simulate_in_browser,
        write_robots,
    )
    from eyechart_experiment.storage.experiment_folder import open_study

    settings.check()
    folder, out, seed = open_study(study), settings.out, settings.seed
    if not settings.fast:
        # before the study is copied: without a browser nothing is written
        find_browser()
    copy = copy_study(folder, out)
    kinds = kinds_of(
        settings.participants,
        settings.spammers,
        seed,
        settings.droppers,
        cheaters=settings.cheaters,
        leavers=settings.leavers,
    )
    with ProgressBars() as bars:
        step = bars.begin("robots", len(kinds))
        run = simulate_fast if settings.fast else simulate_in_browser
        outcomes = run(copy, kinds, curve, seed, step)
    write_robots(out, outcomes, curve)
    ends = Counter(outcome.state for outcome in outcomes)
    print(f"{out}: {len(outcomes)} robots, {', '.join(f'{n} {name}' for name, n in ends.items())}.")
    rates = excluded_by_kind(copy, outcomes).items()
    shares = ", ".join(f"{kind} {n_excluded} of {n}" for kind, (n_excluded, n) in sorted(rates))
    print(f"Excluded by the quality rules: {shares}.")
    if len(outcomes) < len(kinds):
        n_unused = len(kinds) - len(outcomes)
        print(f"The study was complete before the remaining {n_unused} robots could take part.")
    print(f"Next: eyechart experiment status {shlex.quote(str(out))}, or export.")
