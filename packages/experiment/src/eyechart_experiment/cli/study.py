"""Make a study, and simulate participants in a copy of it.

`eyechart experiment new` turns a test set into a study that can be served, and `simulate` tests it.
"""

import shlex
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from inspect import Parameter
from pathlib import Path
from typing import Annotated

from eyechart.cli.shared.derived_options import Only, Typed, derived_options, examples
from eyechart.cli.shared.stop import Stop
from eyechart.core.errors import UsageError
from eyechart.core.options import Field, Option
from eyechart_experiment.cli.serve import StudyPath
from eyechart_experiment.design.budget import Prices
from eyechart_experiment.design.psychometric import GROUP, Psychometric
from eyechart_experiment.design.study_settings import StudyRequest
from eyechart_experiment.recruiters import RECRUITER_SETTINGS, platform_warnings
from eyechart_experiment.study_config import STUDY, StudyConfig


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

    n_odd = settings.spammers + settings.droppers + settings.leavers + settings.cheaters
    if n_odd > settings.participants:
        raise UsageError(
            f"--spammers, --droppers, --leavers and --cheaters must be at most"
            f" {settings.participants} (--participants), got {n_odd}."
        )
    if settings.leavers and not settings.fast:
        raise UsageError("--leavers needs --fast: robots in a browser stay to the end.")
    if settings.cheaters and not settings.fast:
        raise UsageError("--cheaters needs --fast, because a page never sends forged stamps.")
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


def config_fields() -> list[Field]:
    """Return the options for study settings and for settings of the recruitment platforms."""
    chosen = Only(
        "kind", "name", "title", "k", "clean_k", "trials", "practice", "qualification", "catch",
        "language", "institution", "approval", "contact", "payment", "survey",
    ).fields(StudyConfig)  # fmt: skip
    # a study needs a name and a title, which have defaults on the command line
    optional = [
        replace(field, default=None) if field.default is Parameter.empty else field
        for field in chosen
    ]
    of_sites = [
        Field(
            name,
            str,
            "",
            Option(help=text, group=STUDY, metavar="CODE", is_advanced=True),
            is_keyword=True,
            is_shared=True,
        )
        for name, text in RECRUITER_SETTINGS.items()
    ]
    return optional + of_sites


@examples(
    "eyechart experiment new study --testset testset.parquet --images images",
    "eyechart experiment new study --testset testset.parquet --trials 200 --pay 12",
)
@derived_options
def new(
    config: Annotated[Mapping[str, object], Typed(config_fields())],
    request: StudyRequest,
    prices: Prices,
) -> None:
    """Create a study: render its stimuli, check its balance, estimate its cost."""
    from eyechart.cli.shared.progress import ProgressBars
    from eyechart.core.devices import find_device
    from eyechart.pipeline.image_source import find_source
    from eyechart.testsets.plan import Plan
    from eyechart.testsets.testset import read_testset
    from eyechart_experiment.design.plan_text import plan_text
    from eyechart_experiment.design.planning import plan_study
    from eyechart_experiment.design.study_build import StudyBuild, side_of
    from eyechart_experiment.design.study_settings import gather_settings, with_side

    # before files are read, and before a collection is simulated with these fractions
    prices.check()
    settings, chosen = gather_settings(request, config)
    request.check(settings.kind, "clean_k" in config)
    testset = read_testset(request.testset)
    settings = with_side(settings, testset.header.stimulus, is_chosen="side" in chosen)
    minutes = settings.minutes if "minutes" in chosen else None
    plan = plan_study(testset, settings, request, prices, minutes)
    device = find_device(request.device)
    # before images are loaded, so that a folder that cannot be used is reported at once
    build = StudyBuild(plan)
    source = find_source(request.images, testset.header.stimulus, leave_out=request.folder)
    with ProgressBars() as bars:
        images = source.load(Plan(), bars)
        text = plan_text(plan, side_of(plan, images))
        print(text, end="")
        step = bars.begin("stimuli", len(plan.rows))
        try:
            count = build.carry_out(images, device, text, step)
        except KeyboardInterrupt:
            raise Stop(
                f"Stopped: finished stimuli are in {request.folder}; run the same command"
                " again to resume."
            ) from None
    for warning in platform_warnings(plan.config.recruiter_settings):
        print(f"Note: {warning}")
    if build.is_finished:
        print(f"{request.folder} already exists; all of its {count} stimuli are valid.")
    else:
        quoted = shlex.quote(str(request.folder))
        print(f"{request.folder}: {count} stimuli; next: eyechart experiment serve {quoted}")
