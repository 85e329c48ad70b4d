"""`eyechart overlap run`: train on each corruption, test on all, compute overlaps."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from eyechart.cli.overlap.matrices import show_study
from eyechart.cli.shared.derived_options import Only, derived_options, examples
from eyechart.cli.shared.printing import note_left_out
from eyechart.cli.shared.progress import ProgressBars
from eyechart.cli.shared.stop import resumable, shard_done
from eyechart.cli.shared.training_options import (
    ChosenCorruptions,
    Every,
    OutFolder,
    Stimulus,
    check_seeds,
    images_option,
)
from eyechart.core.errors import UsageError
from eyechart.core.options import Option, ShardOption
from eyechart.corruptions.suites.published import STUDIES, preset_line, preset_option, values_of
from eyechart.models.registries import ARCH_HELP
from eyechart.training.recipe import Recipe

if TYPE_CHECKING:
    from eyechart.corruptions.suites.suite import Entry


CANDIDATES = "noc-candidates"
"""Default suite of a study."""

NETWORK = "resnet18"
"""Default architecture, trained from scratch."""

IMAGENET_CLASSES = 1000
"""Number of ImageNet classes, of which ImageNet-100 is every tenth by WordNet id."""


@examples(
    "eyechart overlap run --images val --train-images train --epochs 20",
    "eyechart overlap run --preset imagenet-noc --images imagenet/val --device cuda",
)
@derived_options
def run(
    images: Annotated[
        Path,
        images_option(
            "Images to test on: class folders, or a CSV or Parquet file; without --train-images,"
            " a fifth of every class is used for testing."
        ),
    ],
    train_images: Annotated[Path | None, images_option("Separate images to train on.")] = None,
    preset: Annotated[str | None, preset_option(STUDIES, "Training")] = None,
    stimulus: Stimulus = "224",
    every: Every = 1,
    suites: Annotated[
        tuple[str, ...],
        Option(
            help="A suite's name or YAML file; repeatable.",
            group="Corruptions",
            flags=("--suite",),
        ),
    ] = (CANDIDATES,),
    corruptions: ChosenCorruptions = (),
    together: Annotated[
        tuple[str, ...],
        Option(
            help="Also train one network on all corruptions of this suite, for eyechart overlap"
            " coverage; repeatable.",
            group="Corruptions",
            is_advanced=True,
            metavar="SUITE",
        ),
    ] = (),
    arch: Annotated[
        str | None,
        Option(help=f"{ARCH_HELP}; {NETWORK} by default, unless --start is set.", group="Models"),
    ] = None,
    start: Annotated[
        str | None,
        Option(
            help="Tune this model instead of training from scratch: timm:NAME, hf:REPO,"
            " module:attribute, a checkpoint or a card, as for evaluate; must be a torch module.",
            group="Models",
            is_advanced=True,
            metavar="MODEL",
        ),
    ] = None,
    download: Annotated[
        bool,
        Option(
            help="Download weights of --start that are missing.",
            group="Models",
            is_advanced=True,
        ),
    ] = False,
    trust: Annotated[
        bool,
        Option(
            help="Allow --start to run custom code.",
            group="Models",
            is_advanced=True,
        ),
    ] = False,
    seeds: Annotated[int, Option(help="Number of repetitions.", group="Training")] = 1,
    seed: Annotated[int, Option(help="Seed of the first repetition.", group="Compute")] = 0,
    device: Annotated[
        str,
        Option(help="cpu, cuda, auto, or several devices such as cuda:0,cuda:1.", group="Compute"),
    ] = "cpu",
    shard: ShardOption = None,
    out: OutFolder = Path("eyechart-overlap"),
    *,
    recipe: Annotated[
        Recipe,
        Only(
            "epochs",
            "batch_size",
            "lr",
            "schedule",
            "warmup",
            "weight_decay",
            "nesterov",
            "share",
            "crop",
            "precision",
            "deterministic",
        ),
    ],
) -> None:
    """Train a network on each corruption and test it on all of them."""
    values = {} if preset is None else values_of(STUDIES[preset])
    is_whole = suites == values.get("suites") and not corruptions
    if preset is not None and together == values["together"] and not is_whole:
        # a study of other corruptions may not include all benchmarks of the preset
        together = ()
    if preset is not None and start is not None:
        raise UsageError(f"--preset {preset} trains from scratch: omit --start.")
    if arch is not None and start is not None:
        raise UsageError("Pass --arch to train from scratch or --start to tune, not both.")
    check_seeds(seeds)
    from eyechart.overlap.overlap_study import OverlapStudy
    from eyechart.overlap.study_execution import run_study
    from eyechart.training.data import TrainingSources

    entries = entries_of(suites, corruptions)
    study = OverlapStudy(
        entries,
        recipe,
        (arch or NETWORK) if start is None else "",
        start or "",
        benchmarks_of(together, entries),
        tuple(range(seed, seed + seeds)),
        trust,
        download,
    )
    sources = TrainingSources(
        images,
        train_images,
        stimulus,
        every,
        leave_out=out,
        # the preset selects classes of ImageNet; another --every may be for any dataset
        n_classes=IMAGENET_CLASSES if every == values.get("every") else None,
    )
    if preset is not None:
        chosen = {
            **vars(recipe),
            "suites": suites,
            "together": together,
            "arch": arch,
            "every": every,
            "stimulus": stimulus,
        }
        print(preset_line(preset, STUDIES, chosen, len(entries)))
    with resumable(out, "finished work"), ProgressBars() as bars:
        devices = [name.strip() for name in device.split(",")]
        table = run_study(study, sources, devices, out, bars, shard)
    if table is None:
        print(shard_done(shard, out))
    else:
        show_study(out)


def entries_of(suite_names: Sequence[str], corruptions: Sequence[str]) -> "tuple[Entry, ...]":
    """Return these corruptions, or all distinct corruptions of the suites if none are given."""
    from eyechart.corruptions.suites.assets import left_out, ready_entries
    from eyechart.corruptions.suites.suite import load_suite
    from eyechart.corruptions.suites.suite_file import choose_entries

    suites = [load_suite(name) for name in suite_names]
    if not corruptions:
        note_left_out(name for suite in suites for name in left_out(suite))
    usual = (entry.name for suite in suites for entry in ready_entries(suite))
    names = corruptions or list(dict.fromkeys(usual))
    return choose_entries(suites, names, "study", "Corruptions to train on", "chosen").entries


def benchmarks_of(
    suite_names: Sequence[str], entries: "tuple[Entry, ...]"
) -> dict[str, tuple[str, ...]]:
    """Return the corruptions of each suite, which must all be in the study."""
    from eyechart.corruptions.suites.assets import ready_entries
    from eyechart.corruptions.suites.suite import load_suite

    known = {entry.name for entry in entries}
    benchmarks = {}
    for name in suite_names:
        suite = load_suite(name)
        members = tuple(entry.name for entry in ready_entries(suite))
        missing = [member for member in members if member not in known]
        if missing:
            raise UsageError(
                f"--together {name} contains {missing[0]}, which is not in this study: add its "
                "suite with --suite."
            )
        if suite.name in benchmarks:
            raise UsageError(
                f"Suites of --together must have different names, got {suite.name} twice."
            )
        benchmarks[suite.name] = members
    return benchmarks
