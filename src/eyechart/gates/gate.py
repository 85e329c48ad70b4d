"""`gate`: decide whether a model meets its release requirements.

`ec.gate` takes the settings as arguments; the command line calls `decide_gate`.
"""

from datetime import UTC, datetime
from hashlib import sha256

from eyechart.core.options import takes_fields_of
from eyechart.core.version import __version__
from eyechart.gates.decision import decide_rules, gate_outcome
from eyechart.gates.gate_results import GateResults, RunFacts
from eyechart.gates.gate_settings import GateSettings
from eyechart.gates.rule_samples import RunPair, select_samples
from eyechart.gates.rules import load_rules
from eyechart.results.recorded_run import RecordedRun, read_recorded_run
from eyechart.results.run_config import check_same_ruler
from eyechart.results.schema import RESULTS_FILE
from eyechart.stats.p_values import SIGNIFICANT


@takes_fields_of(GateSettings)
def gate(settings: GateSettings) -> GateResults:
    """Decide from finished runs whether a model passes its release rules.

    Every argument is also an option of `eyechart gate`. A rule passes if its lower confidence bound
    is above its limit, and fails if its upper bound is below it; the gate passes if every rule
    passes. Bounds are one-sided (5 %), with images as sampling units. A rule with insufficient data
    is inconclusive and does not pass.

    Returns:
        The outcome, with each rule's estimate, bounds and advice; see `.passed` and `.save(path)`.

    Raises:
        UsageError: If an argument or a rule is invalid, or the runs have different samples.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import numpy as np
        >>> from PIL import Image
        >>> import eyechart as ec
        >>> def mean_color(images):  # a toy model: one score per channel
        ...     return images.mean(dim=(2, 3))
        >>> rule = {"name": "blur", "corruptions": ["gaussian_blur"], "metric": "consistency",
        ...         "at_least": 0.05}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for index in range(40):
        ...         noise = np.random.default_rng(index).random((80, 80, 3))
        ...         pixels = (255 * noise).astype(np.uint8)
        ...         Image.fromarray(pixels).save(Path(folder, f"{index}.png"))
        ...     run = Path(folder, "run")
        ...     results = ec.evaluate(
        ...         mean_color, folder, n=40, corruptions=["gaussian_blur"], labels="none",
        ...         stimulus="64", bins=4, min_per_bin=2, n_bootstrap=10, out=run,
        ...     )
        ...     _ = results.save(run)
        ...     results = ec.gate(run, rules=[rule])
        >>> results
        <GateResults of 1 rule: pass>
    """
    return decide_gate(settings)


def decide_gate(settings: GateSettings) -> GateResults:
    """Return the outcome of a gate."""
    settings.check()
    rules = load_rules(settings.rules)
    new = read_recorded_run(settings.new_folder)
    old = None if settings.old_folder is None else read_recorded_run(settings.old_folder)
    if old is not None:
        check_same_ruler((new.folder, new.results.config), (old.folder, old.results.config))
    pair = RunPair(new, old)
    samples = [select_samples(rule, pair) for rule in rules.rules]
    results = decide_rules(rules.rules, samples, new)
    return GateResults(
        eyechart=__version__,
        made=datetime.now(UTC).isoformat(timespec="seconds"),
        outcome=gate_outcome([result.outcome for result in results]),
        inconclusive=settings.inconclusive,
        alpha=SIGNIFICANT,
        intended_conditions=rules.intended,
        rules_file=rules.file,
        new=_facts(new),
        old=None if old is None else _facts(old),
        rules=tuple(results),
    )


def _facts(run: RecordedRun) -> RunFacts:
    results = run.results
    config, info, images = results.config, results.run, results.images
    content = (run.folder / RESULTS_FILE).read_bytes()
    first = next(iter(results.models[0].spaces.values()))
    return RunFacts(
        folder=str(run.folder),
        results_digest=sha256(content).hexdigest(),
        made=info.made,
        command=info.command,
        device=info.device,
        git=info.git,
        versions=info.versions,
        suite=config.suite,
        n=config.n,
        seed=config.seed,
        sampling=config.sampling,
        ruler=config.ruler,
        stimulus=images.stimulus,
        source=images.source,
        images_digest=images.digest,
        n_images=images.used,
        n_classes=first.classes,
        models={model.name: model.identity or "" for model in results.models},
        warnings=results.warnings,
    )
