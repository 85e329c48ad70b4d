"""`ec.evaluate`: the settings as keywords of a Python function.

What is evaluated, and how, is in `evaluate`; `eyechart evaluate` is the same on the command line.
"""

from eyechart.core.errors import CheckFailed
from eyechart.core.options import takes_fields_of
from eyechart.pipeline.checks import check_sentence, failures
from eyechart.pipeline.evaluate import evaluate as run
from eyechart.pipeline.settings import EvaluateSettings
from eyechart.results.schema import Results


@takes_fields_of(EvaluateSettings)
def evaluate(settings: EvaluateSettings) -> Results:
    """Return how robust models are: R_a, R_p, and HMRI and MRSI next to people, per corruption.

    Every argument is an option of `eyechart evaluate` too, with the same default, but for `out`.

    Raises:
        UsageError: if something that was given cannot be used.
        CheckFailed: if `check` or `fail_under` finds something; its `results` are those of the run.
    """
    finished = run(settings)
    failed = failures(finished.results, settings.floors)
    if finished.comparison is not None and not finished.comparison.passed:
        failed = [check_sentence(finished.comparison), *failed]
    if failed:
        raise CheckFailed(" ".join(failed), finished.results)
    return finished.results
