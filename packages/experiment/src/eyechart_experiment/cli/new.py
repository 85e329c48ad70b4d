"""`eyechart experiment new`: turn a test set into a study that can be served."""

import shlex
from collections.abc import Mapping
from dataclasses import replace
from inspect import Parameter
from typing import Annotated

from eyechart.cli.shared.derived_options import Only, Typed, derived_options, examples
from eyechart.cli.shared.stop import Stop
from eyechart.core.options import Field, Option
from eyechart_experiment.design.budget import Prices
from eyechart_experiment.design.study_settings import StudyRequest
from eyechart_experiment.recruiters import RECRUITER_SETTINGS, platform_warnings
from eyechart_experiment.study_config import STUDY, StudyConfig


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

    settings, chosen = gather_settings(request, config)
    prices.check()
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
