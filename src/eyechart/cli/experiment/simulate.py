"""`eyechart experiment simulate`: robots take part in a copy of a study."""

from pathlib import Path
from typing import Annotated

import typer

from eyechart.cli.experiment.serve import StudyPath, need_experiment
from eyechart.cli.shared.paths import folder as folder_path
from eyechart.core.errors import UsageError


def simulate(
    study: StudyPath,
    out: Annotated[
        Path,
        typer.Option(
            metavar="DIR", parser=folder_path, help="Where the copy with the robots goes."
        ),
    ],
    participants: Annotated[int, typer.Option(help="How many robots.", min=1)] = 3,
    spammers: Annotated[int, typer.Option(help="How many of them only click.", min=0)] = 0,
    fast: Annotated[
        bool, typer.Option("--fast", help="Without a browser and without waiting.")
    ] = False,
    middle: Annotated[float, typer.Option(help="Δv at which half of what is seen is lost.")] = 0.65,
    width: Annotated[float, typer.Option(help="How slowly it is lost, in Δv.", min=0.001)] = 0.08,
    lapse: Annotated[
        float, typer.Option(help="Share of clean pictures that are missed.", min=0, max=1)
    ] = 0.02,
    seed: Annotated[int, typer.Option(help="Of all random numbers.", min=0)] = 0,
) -> None:
    """Let robots with a known curve take part in a copy of a study, in a real browser."""
    need_experiment()
    from eyechart.cli.shared.progress import ProgressBars
    from eyechart.experiment.simulate.robots import Psychometric, kinds_of
    from eyechart.experiment.simulate.simulation import copy_study, simulate_fast, write_robots
    from eyechart.experiment.storage.experiment_folder import open_study

    if spammers > participants:
        raise UsageError(f"--spammers {spammers} are more than --participants {participants}.")
    curve = Psychometric(middle, width, lapse)
    folder = open_study(study)
    if fast:
        run = simulate_fast
    else:
        from eyechart.experiment.simulate.browser_robots import find_browser, simulate_in_browser

        find_browser()
        run = simulate_in_browser
    copy = copy_study(folder, out)
    kinds = kinds_of(participants, spammers, seed)
    with ProgressBars() as bars:
        outcomes = run(copy, kinds, curve, seed, bars.begin("robots", len(kinds)))
    write_robots(out, outcomes, curve)
    ends: dict[str, int] = {}
    for outcome in outcomes:
        ends[outcome.state] = ends.get(outcome.state, 0) + 1
    print(f"{out}: {len(outcomes)} robots, {', '.join(f'{n} {name}' for name, n in ends.items())}.")
    if len(outcomes) < len(kinds):
        print(f"The study was full before the other {len(kinds) - len(outcomes)} came.")
    print(f"See eyechart experiment status {out}, or export it.")
