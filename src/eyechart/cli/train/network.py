"""`eyechart train network`: train a network from scratch on clean or corrupted images."""

from typing import TYPE_CHECKING

from eyechart.cli.overlap.run import entries_of
from eyechart.cli.shared.derived_options import derived_options
from eyechart.cli.shared.help import examples
from eyechart.cli.shared.paths import check_file_to_write
from eyechart.cli.shared.stop import Stop
from eyechart.core.phrases import count_of
from eyechart.training.recipe import Recipe
from eyechart.training.training_settings import NetworkSettings

if TYPE_CHECKING:
    from eyechart.core.progress import Progress
    from eyechart.images.imageset import ImageSet


@examples(
    "eyechart train network resnet18 --train-images train --images val",
    "eyechart train network resnet18 --train-images train --suite imagenet-c",
)
@derived_options
def network(settings: NetworkSettings, recipe: Recipe) -> None:
    """Train a network on clean or corrupted images and write a checkpoint.

    Run the same command again to resume an interrupted training.
    """
    from eyechart.cli.shared.progress import ProgressBars
    from eyechart.core.devices import find_device
    from eyechart.core.progress import NoProgress
    from eyechart.core.storage.locks import lock_file
    from eyechart.models.preprocessing import Preprocessing
    from eyechart.training.clean_accuracy import clean_accuracy
    from eyechart.training.corruption_mixture import Mixture
    from eyechart.training.data import mean_and_deviation, training_data
    from eyechart.training.distributed import for_first, is_first_process, own_device
    from eyechart.training.training_loop import Training, new_network, train

    out = settings.out
    check_file_to_write(out)
    settings.check()
    recipe.check()
    entries = entries_of(settings.suites, settings.corruptions) if settings.suites else ()
    mixture = Mixture(entries, settings.severity, settings.delta_v)
    mixture.check()
    where = own_device(find_device(settings.device))
    with for_first(lock_file(out)), ProgressBars() as bars:
        progress = bars if is_first_process() else NoProgress()
        try:
            train_set, test_set = _load(settings, progress)
            data = training_data(train_set)
            # numbered by the classes of the training set, some of which the test set may lack
            test = (
                None
                if test_set is None
                else training_data(test_set, data.class_names, min_per_class=1)
            )
            steps = Preprocessing(None, *mean_and_deviation(data))
            start = new_network(settings.arch, data, recipe.seed, steps)
            train(Training(start, data, recipe, mixture), where, out, progress)
        except KeyboardInterrupt:
            raise Stop(
                f"Stopped: the training state is next to {out}; run the same command again to"
                " resume."
            ) from None
    if not is_first_process():
        return
    print(f"Written: {out}, trained on {', '.join(mixture.names) or 'clean images'}.")
    if test is not None:
        accuracy = clean_accuracy(out, test, where)
        low, high = accuracy.interval
        print(
            f"Accuracy {accuracy.value:.3f} on {count_of(accuracy.n_images, 'clean image')} (95 %"
            f" interval {low:.3f} to {high:.3f})."
        )


def _load(settings: NetworkSettings, progress: "Progress") -> "tuple[ImageSet, ImageSet | None]":
    from eyechart.training.sources import TrainingSources, load_labeled

    where, stimulus, every = settings.train_images, settings.stimulus, settings.every
    if settings.images is None:
        return load_labeled(where, "training images", every, stimulus, progress), None
    return TrainingSources(settings.images, where, stimulus, every).load(progress)
