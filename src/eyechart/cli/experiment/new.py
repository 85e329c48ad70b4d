"""`eyechart experiment new`: from a test set to a study that can be served."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eyechart.cli.experiment.serve import need_experiment
from eyechart.cli.shared.paths import folder as folder_path
from eyechart.cli.shared.paths import folder_or_file
from eyechart.cli.shared.stop import Stop
from eyechart.experiment.recruiters import recruiter_settings

if TYPE_CHECKING:
    import torch

    from eyechart.experiment.design.planning import StudyPlan


def with_recruiter_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command an option in place of its ** for each setting of a recruiting site."""
    signature = inspect.signature(command)
    parameters = [
        parameter
        for parameter in signature.parameters.values()
        if parameter.kind != parameter.VAR_KEYWORD
    ]
    for name, text in recruiter_settings().items():
        option = Annotated[str | None, typer.Option(help=text)]
        parameters.append(
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=option)
        )
    command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return command


@with_recruiter_options
def new(
    study: Annotated[
        Path, typer.Argument(metavar="STUDY", parser=folder_path, help="The folder to be made.")
    ],
    testset: Annotated[
        Path, typer.Option(metavar="FILE", parser=folder_or_file, help="A test set's manifest.")
    ],
    images: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER|FILE", parser=folder_or_file,
            help="The pictures it was drawn from; without it the demo photographs.",
        ),
    ] = None,
    kind: Annotated[
        str | None, typer.Option(help="categorise (the default) or same-different.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="In the study's address; the folder's name if not given.")
    ] = None,
    title: Annotated[str | None, typer.Option(help="What participants read first.")] = None,
    k: Annotated[
        int | None, typer.Option("--k", help="Answers for each corrupted picture or pair; 5.")
    ] = None,
    clean_k: Annotated[
        int | None, typer.Option(help="Answers for each clean picture; 5.")
    ] = None,
    trials: Annotated[
        int | None, typer.Option(help="Of the main part for each participant; 100.")
    ] = None,
    practice: Annotated[int | None, typer.Option(help="Practice trials; 16.")] = None,
    qualification: Annotated[int | None, typer.Option(help="Qualification trials; 16.")] = None,
    catch: Annotated[int | None, typer.Option(help="Catch trials among the others; 8.")] = None,
    catch_pool: Annotated[
        int | None, typer.Option(help="Stimuli to take catch trials from; twice as many.")
    ] = None,
    database: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Where answers go; an SQLite file in STUDY if not given."),
    ] = None,
    secret: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", parser=folder_or_file,
            help="That of an earlier study with the same database, or its folder.",
        ),
    ] = None,
    pair: Annotated[
        list[str] | None,
        typer.Option(metavar="A:B", help="Two corruptions to compare; repeatable; all pairs."),
    ] = None,
    per_pair: Annotated[
        int | None, typer.Option(help="Stimuli for each pair of corruptions; 40.")
    ] = None,
    pay: Annotated[float, typer.Option(help="For an hour, in the budget.")] = 12.0,
    fee: Annotated[float, typer.Option(help="Of the recruiting site, a share of the pay.")] = 0.2,
    currency: Annotated[str, typer.Option(help="Of the pay.")] = "USD",
    expect_excluded: Annotated[
        float, typer.Option(help="The share of participants who will not count.")
    ] = 0.2,
    seed: Annotated[int, typer.Option(help="Of all random choices.", min=0)] = 0,
    contact: Annotated[
        str | None, typer.Option(help="Whom participants can write to.")
    ] = None,
    payment: Annotated[
        str | None, typer.Option(help="What participants are told about their pay.")
    ] = None,
    consent: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", parser=folder_or_file,
            help="The text participants agree to; {minutes} in it is filled in.",
        ),
    ] = None,
    settings: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", parser=folder_or_file,
            help="YAML with any setting of a study; options come before it.",
        ),
    ] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    **of_recruiters: str | None,
) -> None:  # fmt: skip
    """Make a study: render its pictures, check its balance, and say what it takes."""
    need_experiment()
    from eyechart.core.devices import find_device
    from eyechart.experiment.design.budget import Prices
    from eyechart.experiment.design.planning import StudyRequest, plan_study
    from eyechart.experiment.design.study_settings import gather_settings, with_side
    from eyechart.testsets.testset import read_testset

    options = {
        "kind": kind, "name": name, "title": title, "k": k, "clean_k": clean_k, "trials": trials,
        "practice": practice, "qualification": qualification, "catch": catch, "contact": contact,
        "payment": payment, **of_recruiters,
    }  # fmt: skip
    request = StudyRequest(
        study, Prices(pay, fee, currency, expect_excluded), seed, catch_pool, tuple(pair or ()),
        per_pair, database, secret,
    )  # fmt: skip
    chosen = gather_settings(study, options, settings, consent)
    request.check(chosen.config.kind, clean_k)
    manifest = read_testset(testset)
    chosen = with_side(chosen, manifest.header.stimulus)
    _make(plan_study(manifest, chosen, request), images, find_device(device))


def _make(plan: "StudyPlan", images: Path | None, device: "torch.device") -> None:
    from eyechart.cli.shared.progress import ProgressBars
    from eyechart.experiment.design.study_build import carry_out, prepare, side_of
    from eyechart.pipeline.image_source import find_source
    from eyechart.testsets.plan import Plan as Drawing

    order = plan.order
    begun = prepare(order)
    source = find_source(images, order.testset.header.stimulus, leave_out=order.folder)
    with ProgressBars() as bars:
        loaded = source.load(Drawing(), bars)
        text = plan.text(side_of(order, loaded))
        print(text, end="")
        step = bars.begin("pictures", len(order.rows))
        try:
            count = carry_out(begun, loaded, device, text, step)
        except KeyboardInterrupt:
            raise Stop(f"Stopped: the same command goes on in {order.folder}.", 130) from None
    if begun.is_finished:
        print(f"{order.folder} was there already: all of its {count} pictures are good now.")
    else:
        print(f"{order.folder}: {count} pictures; eyechart experiment serve {order.folder}")
