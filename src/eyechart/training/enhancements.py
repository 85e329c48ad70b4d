"""Compare methods that may make a network more robust: the enhancements of the ImageNet-C paper.

A standard network is trained, or loaded with pretrained weights. It is then fine-tuned, evaluated
with a defense, or replaced by a different network. All networks are tested on the same corrupted
images, and their errors are divided by a baseline's errors, by default the standard network's.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from eyechart.core.errors import UsageError
from eyechart.core.progress import Progress
from eyechart.core.storage.run_folder import open_run_folder
from eyechart.images.imageset import ImageSet
from eyechart.models.checkpoint import read_checkpoint
from eyechart.models.defenses import apply_defenses, crop_of_crop_note, equalize, read_defenses
from eyechart.models.find import load_model
from eyechart.models.model import Model, Preprocessing
from eyechart.models.networks import build_network
from eyechart.models.registries import CENTER_CROP, CLAHE, NON_LOCAL_MEANS, TEN_CROP
from eyechart.pipeline.evaluate import predict_and_score
from eyechart.pipeline.prepare import EvaluationInputs, check_labels, check_models
from eyechart.pipeline.scoring.baseline import (
    AUTO,
    HUMANS,
    NONE,
    choose_baseline,
    with_baseline,
)
from eyechart.pipeline.settings import EvaluateSettings
from eyechart.results.schema import Results
from eyechart.stats.estimate import Estimate, complement
from eyechart.testsets.samples import choose_images
from eyechart.training.data import (
    LabeledImages,
    TrainingSources,
    Transform,
    load_labeled,
    mean_and_deviation,
    training_data,
)
from eyechart.training.recipe import Recipe
from eyechart.training.retrain import Load, data_for, reject_softmax, start_of, trainable
from eyechart.training.training_loop import InitialModel, Training, new_network, train

STANDARD, TUNED = "standard", "trained on"
EVALUATION, EVALUATION_UNCROPPED = "evaluation", "evaluation-uncropped"
CROPPED, UNCROPPED = "224", "uncropped"
"""The usual stimulus, and the stimulus for uncropped images, from which ten crops are taken."""

EQUALIZED = Transform(CLAHE, equalize)


@dataclass(frozen=True)
class Enhancement:
    """One enhancement. `name`: the name of the checkpoint that is trained or used.

    `network`: a different network to use instead, pretrained if the standard network is, otherwise
    trained from scratch; "" for the standard network. `recipe`: how the standard network is
    fine-tuned; None if it is not. `equalized`: whether the lightness of training images is
    equalized. `defenses`: the defenses used in its evaluation.
    """

    title: str
    name: str = STANDARD
    network: str = ""
    recipe: Recipe | None = None
    equalized: bool = False
    defenses: tuple[str, ...] = ()


ErrorScores = tuple[Estimate | None, Estimate | None, Estimate | None]
"""The clean error, mCE and relative mCE of an enhancement; mCE is None if it cannot be computed."""


def usual_enhancements(
    larger: Sequence[str], tuning: Recipe, widths: Sequence[float], weights: Sequence[float]
) -> list[Enhancement]:
    """Return the enhancements of the paper; `larger`: names of other networks to compare with.

    `widths`, `weights`: noise widths and loss weights of stability training; all combinations are
    tried.
    """
    enhancements = [
        Enhancement(TUNED, "further", recipe=tuning),
        Enhancement("CLAHE", CLAHE, recipe=tuning, equalized=True, defenses=(CLAHE,)),
        Enhancement("non-local means", defenses=(NON_LOCAL_MEANS,)),
    ]
    for width in widths:
        for weight in weights:
            recipe = replace(tuning, stability=weight, stability_width=width)
            title = f"stability training, noise {width:g}, weight {weight:g}"
            enhancements.append(
                Enhancement(title, f"stability-{width:g}-{weight:g}", recipe=recipe)
            )
    enhancements.append(Enhancement(TEN_CROP, defenses=(TEN_CROP,)))
    enhancements += [
        Enhancement(name, f"network-{number}", name) for number, name in enumerate(larger, 1)
    ]
    return enhancements


@dataclass(frozen=True, eq=False)
class EnhancementStudy:
    """The networks to compare: the standard network and its enhancements.

    `network`: the standard network's architecture or, if `is_pretrained`, a model to fine-tune, as
    a string that `load_model` accepts. `recipe`: how networks are trained from scratch. `baseline`:
    the errors that mCE divides by: "standard", a table's name, a model or a file, as in `evaluate`.
    """

    network: str
    recipe: Recipe
    enhancements: tuple[Enhancement, ...]
    settings: EvaluateSettings
    out: Path
    is_pretrained: bool = False
    baseline: str = STANDARD

    def check(self) -> None:
        """Raise a UsageError unless the study is valid."""
        self.recipe.check()
        for enhancement in self.enhancements:
            if enhancement.recipe is not None:
                enhancement.recipe.check()
        self.settings.checked()
        # mCE needs a network's errors to divide by.
        if self.baseline in (AUTO, NONE, HUMANS):
            raise UsageError(
                "baseline must be standard (the network itself), a table such as alexnet, a model,"
                f" or a .csv file, got {self.baseline!r}."
            )
        if self.out.exists() and not self.out.is_dir():
            raise UsageError(f"Cannot write into {self.out}: it is a file, not a folder.")

    def path(self, name: str) -> Path:
        """Return the path of a checkpoint."""
        return self.out / f"{name}.pt"


def compare_enhancements(
    study: EnhancementStudy,
    sources: TrainingSources,
    load: Load,
    device: torch.device,
    progress: Progress,
) -> tuple[dict[Path, Results], dict[str, ErrorScores], str, list[str]]:
    """Train the networks that the folder lacks, and test all networks.

    `load`: a function that loads pretrained models and the checkpoints written by this function.

    Returns:
        The evaluation results by folder; the scores of each enhancement by title, the standard
        network first; the model whose errors mCE divides by; and notes for the reader.
    """
    study.check()
    # Compared with published results, whose strengths are sampled like this.
    study = replace(study, settings=study.settings.at_published_strengths())
    images, test = sources.load(progress)
    test = _chosen(test, study.settings)
    baseline = _baseline(study, test, load, device)
    if study.is_pretrained:
        model, data = _pretrained(study, images, test, load, device)
    else:
        model, data = None, _from_scratch(study, images, test)
    settings = {
        "kind": "enhancements",
        "network": study.network,
        "enhancements": [enhancement.title for enhancement in study.enhancements],
        "pretrained": study.is_pretrained,
        "baseline": None if baseline is None else baseline.name,
    }
    open_run_folder(study.out, settings, work="comparison")
    _train_all(study, model, data, device, progress)
    return _test_all(study, sources, test, baseline, load=load, device=device, progress=progress)


def _baseline(
    study: EnhancementStudy, test: ImageSet, load: Load, device: torch.device
) -> Model | None:
    """Return the baseline if it is a model other than the standard network.

    An invalid baseline raises an error before anything is trained.
    """
    if study.baseline == STANDARD:
        return None
    models, name = with_baseline([], study.baseline, load)
    if not models:
        choose_baseline(name, study.settings.plan, test, ())
        return None
    check_models(models, test, device)
    check_labels(study.settings.plan, models, test)
    return models[0]


def _with_baseline(
    study: EnhancementStudy, models: list[Model], baseline: Model | None
) -> tuple[list[Model], str]:
    """Return the models, with the baseline added if it is a model, and the baseline's name."""
    if baseline is None:
        return models, models[0].name if study.baseline == STANDARD else study.baseline
    # A baseline that is also one of the compared models is evaluated only once.
    known = any(model.name == baseline.name for model in models)
    return [*models, *([] if known else [baseline])], baseline.name


def _from_scratch(study: EnhancementStudy, images: ImageSet, test: ImageSet) -> LabeledImages:
    """Return the training data, after checking that the networks can be trained."""
    data = training_data(images)
    # Checked here rather than after everything is trained.
    strange = sorted({str(enhancement) for enhancement in test.labels} - set(data.class_names))
    if strange:
        raise UsageError(
            f"{images.source} has no images of the class {strange[0]!r}, which {test.source}"
            " has: add some, or remove the class."
        )
    for enhancement in study.enhancements:
        if enhancement.network:
            build_network(enhancement.network, len(data.class_names))
    return data


def _pretrained(
    study: EnhancementStudy, images: ImageSet, test: ImageSet, load: Load, device: torch.device
) -> tuple[Model, LabeledImages]:
    """Return the standard network and the data for fine-tuning it, after checking both."""
    # In full precision, because it is fine-tuned.
    model = load(study.network, half=False)
    trainable(model)
    larger = [
        load(enhancement.network) for enhancement in study.enhancements if enhancement.network
    ]
    check_models([model, *larger], test, device)
    check_labels(study.settings.plan, [model, *larger], test)
    reject_softmax(model, test)
    return model, data_for(model, images, test.labels)


def _chosen(test: ImageSet, settings: EvaluateSettings) -> ImageSet:
    """Return the test images, or the subset that the plan requests."""
    if settings.plan.max_images is None or settings.plan.max_images >= len(test):
        return test
    return test.select(choose_images(test.listed, settings.plan).tolist())


def _train_all(
    study: EnhancementStudy,
    model: Model | None,
    data: LabeledImages,
    device: torch.device,
    progress: Progress,
) -> None:
    """Train the networks missing in the folder; `model`: the standard network if pretrained."""
    steps = Preprocessing(None, *mean_and_deviation(data))
    seed = study.recipe.seed
    if model is None:
        first = new_network(study.network, data, seed, steps)
        train(Training(first, data, study.recipe), device, study.path(STANDARD), progress)
    for enhancement in study.enhancements:
        path = study.path(enhancement.name)
        if enhancement.recipe is not None:
            start = _tuned_start(study, model, data)
            # Transformed per batch, because all equalized images may not fit into memory.
            tuning_data = replace(data, transform=EQUALIZED) if enhancement.equalized else data
            train(Training(start, tuning_data, enhancement.recipe), device, path, progress)
        elif enhancement.network and model is None:
            other = new_network(enhancement.network, data, seed, steps)
            train(Training(other, data, study.recipe), device, path, progress)


def _tuned_start(study: EnhancementStudy, model: Model | None, data: LabeledImages) -> InitialModel:
    """Return a new copy of the standard network for fine-tuning."""
    if model is not None:
        return start_of(model, study.network)
    path = study.path(STANDARD)
    loaded = load_model(str(path), torch.device("cpu"), half=False, trust=True)
    assert loaded.module is not None, "a checkpoint is a module"
    held = read_checkpoint(path)
    return InitialModel(
        loaded.module, held.network, held.base, data.class_names, loaded.preprocessing
    )


def _test_all(
    study: EnhancementStudy,
    sources: TrainingSources,
    test: ImageSet,
    baseline: Model | None,
    *,
    load: Load,
    device: torch.device,
    progress: Progress,
) -> tuple[dict[Path, Results], dict[str, ErrorScores], str, list[str]]:
    """Test every network: the ten-crop defense on uncropped images, others on cropped images."""
    standard = load(study.network if study.is_pretrained else str(study.path(STANDARD)))
    apart = [
        enhancement
        for enhancement in study.enhancements
        if TEN_CROP in enhancement.defenses and sources.stimulus == CROPPED
    ]
    near = [enhancement for enhancement in study.enhancements if enhancement not in apart]
    models = [standard, *(_load(study, enhancement, standard, load) for enhancement in near)]
    tested, divisor = _with_baseline(study, models, baseline)
    folder = study.out / EVALUATION
    evaluation = predict_and_score(
        replace(study.settings, baseline=divisor),
        EvaluationInputs(tested, test, device),
        folder,
        progress,
    )
    evaluations = {folder: evaluation}
    scores = {STANDARD: _error_scores(evaluation, standard.name)}
    for enhancement, model in zip(near, models[1:], strict=True):
        scores[enhancement.title] = _error_scores(evaluation, model.name)
    notes = []
    if apart:
        folder = study.out / EVALUATION_UNCROPPED
        evaluation, note = _test_uncropped(
            study, sources, standard, baseline, device=device, folder=folder, progress=progress
        )
        evaluations[folder] = evaluation
        notes.append(note)
        name = apply_defenses(standard, [TEN_CROP]).name
        scores |= {enhancement.title: _error_scores(evaluation, name) for enhancement in apart}
    defenses = read_defenses([name for enhancement in near for name in enhancement.defenses])
    crops = crop_of_crop_note(defenses, test.sizes)
    order = [STANDARD, *(enhancement.title for enhancement in study.enhancements)]
    return (
        evaluations,
        {title: scores[title] for title in order},
        study.network if study.baseline == STANDARD else divisor,
        [*notes, *([crops] if crops else [])],
    )


def _test_uncropped(
    study: EnhancementStudy,
    sources: TrainingSources,
    standard: Model,
    baseline: Model | None,
    *,
    device: torch.device,
    folder: Path,
    progress: Progress,
) -> tuple[Results, str]:
    """Test ten crops and one crop of uncropped images; return the results and a note on them."""
    images = load_labeled(
        sources.images, "uncropped images", 1, UNCROPPED, progress, leave_out=sources.leave_out
    )
    images = _chosen(images, study.settings)
    # One crop of the same uncropped images, so that both networks see the same pixels.
    other = None if baseline is None else apply_defenses(baseline, [CENTER_CROP])
    cropped = [apply_defenses(standard, [name]) for name in (CENTER_CROP, TEN_CROP)]
    models, divisor = _with_baseline(study, cropped, other)
    note = f"ten-crop is tested on uncropped images, in {folder}"
    if other is not None or study.baseline == STANDARD:
        note += "; its mCE divides by errors on one crop of the same images."
    else:
        # Published tables may not apply to uncropped images: then there is no mCE, and the note
        # says why.
        try:
            choose_baseline(divisor, study.settings.plan, images, ())
            note += "."
        except UsageError as error:
            divisor = NONE
            reason, _, _ = str(error).rpartition(": ")
            note += f", without mCE: {reason}."
    settings = replace(study.settings, baseline=divisor)
    inputs = EvaluationInputs(models, images, device)
    return predict_and_score(settings, inputs, folder, progress), note


def _load(study: EnhancementStudy, enhancement: Enhancement, standard: Model, load: Load) -> Model:
    model = standard
    if enhancement.network and study.is_pretrained:
        model = load(enhancement.network)
    elif enhancement.network or enhancement.recipe is not None:
        model = load(str(study.path(enhancement.name)))
    return apply_defenses(model, enhancement.defenses)


def _error_scores(results: Results, name: str) -> ErrorScores:
    space = results[name].primary
    clean = None if space.clean_accuracy is None else complement(space.clean_accuracy)
    errors = space.corruption_error
    return (clean, None, None) if errors is None else (clean, errors.mce, errors.relative_mce)
