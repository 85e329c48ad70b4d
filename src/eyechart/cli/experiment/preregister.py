"""`eyechart experiment preregister`: write the plan of a study before there are data."""

from eyechart.cli.experiment.serve import StudyPath, need_experiment
from eyechart.cli.shared.help import examples


@examples(
    "eyechart experiment preregister study",
    "eyechart experiment preregister runs/study",
)
def preregister(study: StudyPath) -> None:
    """Write a study's plan for pre-registration, with a hash that exports repeat."""
    need_experiment()
    from eyechart.experiment.export.preregistration import preregister as write
    from eyechart.experiment.storage.experiment_folder import open_study

    path, digest, n_responses = write(open_study(study))
    print(f"{path}: SHA-256 {digest}")
    if n_responses:
        print(f"  The study already has {n_responses:,} responses: readers will want to know why.")
    print("  Publish it, such as on osf.io, before the first participant; do not edit it.")
