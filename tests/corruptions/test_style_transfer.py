"""The corruption style_transfer, its file, and the training of its network."""

from itertools import count

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import eyechart as ec
from commands import assert_rejected
from eyechart.core.errors import UsageError
from eyechart.core.storage.locks import lock_file
from eyechart.corruptions.style import statistics, with_statistics
from eyechart.corruptions.suites.assets import VARIABLE, read_styles
from eyechart.corruptions.suites.suite import find_entry
from eyechart.models.find import load_model
from eyechart.testsets.plan import Plan
from eyechart.training import style_transfer
from eyechart.training.style_transfer import Features
from real_images import real_images
from style_judges import pyramid, reusing

EXTRA = "imagenet-c-extra"


def random_images(count=3, side=96):
    found = real_images()
    chosen = (found[place % len(found)] for place in range(count))
    turned = (np.rot90(one, place // len(found)) for place, one in enumerate(chosen))
    return np.stack([np.asarray(Image.fromarray(one).resize((side, side))) for one in turned])


def test_features_get_the_statistics_that_are_asked_for_and_keep_their_shape():
    torch.manual_seed(0)
    features = torch.randn(2, 5, 9, 7) * 3 + 1
    means, deviations = torch.rand(2, 5), torch.rand(2, 5) + 0.5
    made = with_statistics(features, means, deviations)
    levels = made.double().numpy()
    assert np.allclose(levels.mean(axis=(2, 3)), means, atol=1e-4)
    assert np.allclose(levels.std(axis=(2, 3)), deviations, atol=1e-4)
    for image in range(2):
        for channel in range(5):
            one, two = features[image, channel].flatten(), made[image, channel].flatten()
            assert np.corrcoef(one, two)[0, 1] > 0.9999
    own = statistics(features)
    assert np.allclose(own[0], features.double().numpy().mean(axis=(2, 3)), atol=1e-5)


@pytest.mark.usefixtures("with_styles")
def test_severities_go_from_the_image_itself_to_the_style_alone():
    clean = random_images()
    assert np.array_equal(ec.corrupt(clean, "style_transfer", severity=0), clean)
    steps = [ec.corrupt(clean, "style_transfer", severity=step) for step in (0.01, 1, 3, 5)]
    away = [float(np.abs(step.astype(int) - clean).mean()) for step in steps]
    assert 0 < away[0] < 0.2 * away[1]
    assert len({step.tobytes() for step in steps}) == 4


@pytest.mark.usefixtures("with_styles")
def test_it_is_the_network_applied_as_the_method_says(style_file):
    styles = read_styles(style_file)
    clean = random_images(1)
    made = ec.corrupt(clean, "style_transfer", amount=0.7, style=0.5)
    unit = torch.from_numpy(clean).permute(0, 3, 1, 2).float() / 255
    with torch.no_grad():
        features = styles.network.encoder(unit)
        plain = features - features.mean(dim=(2, 3), keepdim=True)
        plain = plain / features.std(dim=(2, 3), keepdim=True, correction=0)
        styled = plain * styles.deviations[1, :, None, None] + styles.means[1, :, None, None]
        wanted = styles.network.decoder(0.3 * features + 0.7 * styled)
    levels = wanted.permute(0, 2, 3, 1).numpy() * 255
    assert np.abs(made - levels).max() <= 1.01


@pytest.mark.usefixtures("with_styles")
@pytest.mark.parametrize("size", [(8, 8), (33, 50), (64, 64), (97, 65)])
def test_any_size_color_or_gray_and_any_batch_gives_the_same_image(size):
    random = np.random.default_rng(3)
    for channels in (1, 3):
        levels = random.integers(0, 256, (3, *size, channels), dtype=np.uint8)
        batch = torch.from_numpy(levels).permute(0, 3, 1, 2)
        together = ec.corrupt(batch, "style_transfer", severity=4, keys=list("abc"))
        assert together.shape == batch.shape and together.dtype == torch.uint8
        for place, key in enumerate("abc"):
            own = batch[place : place + 1]
            alone = ec.corrupt(own, "style_transfer", severity=4, keys=[key])
            assert torch.equal(alone[0], together[place])


@pytest.mark.usefixtures("with_styles")
def test_every_style_is_drawn_and_another_seed_draws_others():
    entry = find_entry("style_transfer")
    assert entry.suite == EXTRA and entry.corruption.random
    clean = np.repeat(random_images(1, 64), 30, axis=0)
    made = ec.corrupt(clean, "style_transfer", severity=5, keys=list(range(30)))
    assert len({one.tobytes() for one in made}) == 3
    other = ec.corrupt(clean, "style_transfer", severity=5, keys=list(range(30)), seed=1)
    assert not np.array_equal(made, other)


def test_without_a_network_it_says_what_to_do_and_the_suite_goes_on_without_it(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(UsageError, match="eyechart train style-transfer"):
        ec.corrupt(random_images(1), "style_transfer", severity=3)
    plan = Plan(EXTRA)
    assert plan.left_out() == ["style_transfer"]
    assert "style_transfer" not in [entry.name for entry in plan.entries()]
    named = Plan(EXTRA, corruptions=("style_transfer",))
    assert [entry.name for entry in named.entries()] == ["style_transfer"]


@pytest.mark.usefixtures("with_styles")
def test_with_a_network_the_suite_has_it_and_another_network_is_another_test(
    tmp_path, monkeypatch, style_file
):
    plan = Plan(EXTRA)
    assert plan.left_out() == [] and "style_transfer" in plan.settings()["corruptions"]
    first = plan.settings()
    other = tmp_path / "other.pt"
    other.write_bytes(style_file.read_bytes() + b"\0")
    monkeypatch.setenv(VARIABLE, str(other))
    assert Plan(EXTRA).settings() != first


def test_without_a_network_no_folder_is_made(run, tmp_path, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    Image.new("RGB", (64, 64)).save(tmp_path / "one.png")
    words = ("corrupt", tmp_path / "one.png", "--corruption", "style_transfer", "--severity", 3)
    told = run(*words, "--out", tmp_path / "out")
    assert_rejected(told, "eyechart train style-transfer", VARIABLE)
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("with_styles")
def test_images_of_two_networks_are_not_mixed(run, tmp_path, monkeypatch, style_file):
    Image.new("RGB", (64, 64)).save(tmp_path / "one.png")
    words = ("corrupt", tmp_path / "one.png", "--corruption", "style_transfer", "--severity", 3)
    words += ("--out", tmp_path / "out")
    assert run(*words).status == 0
    assert "1 already exist" in run(*words).out
    other = tmp_path / "other.pt"
    other.write_bytes(style_file.read_bytes() + b"\0")
    monkeypatch.setenv(VARIABLE, str(other))
    assert_rejected(run(*words), "style_transfer", "--overwrite")


@pytest.mark.parametrize("content", [b"", b"no file of torch's", None])
def test_a_file_that_is_none_is_one_sentence(tmp_path, monkeypatch, content):
    path = tmp_path / "style.pt"
    if content is not None:
        path.write_bytes(content)
    monkeypatch.setenv(VARIABLE, str(path))
    with pytest.raises(UsageError, match=r"style\.pt") as error:
        ec.corrupt(random_images(1), "style_transfer", severity=3)
    assert str(error.value).count(".") >= 1 and "\n" not in str(error.value)


def test_features_are_those_before_each_halving():
    model = load_model("style_judges:pyramid", torch.device("cpu"), trust=True)
    judge = Features(model, torch.device("cpu"))
    batch = torch.rand(2, 3, 64, 64)
    found = judge(batch)
    assert {depth: tuple(own.shape[1:]) for depth, own in found.items()} == {
        2: (8, 32, 32), 4: (12, 16, 16), 8: (16, 8, 8), 16: (20, 4, 4),
    }  # fmt: skip
    with torch.no_grad():
        wanted = pyramid.layers[:3](model.preprocessing.on_unit(batch))
    assert torch.allclose(found[8], wanted)


def test_a_layer_that_is_used_several_times_counts_where_a_depth_ends():
    model = load_model("style_judges:reusing", torch.device("cpu"), trust=True)
    batch = torch.rand(2, 3, 64, 64, generator=torch.Generator().manual_seed(2))
    found = Features(model, torch.device("cpu"))(batch)
    with torch.no_grad():
        stages = reusing.stages(model.preprocessing.on_unit(batch))
        # what a stage made is last seen after the next one's first activation
        wanted = [
            reusing.relu(before(own))
            for own, before in zip(stages, [*reusing.before[1:], nn.Identity()], strict=True)
        ]
    for depth, own in zip((2, 4, 8, 16), wanted, strict=True):
        torch.testing.assert_close(found[depth], own, rtol=1e-4, atol=1e-6)


@pytest.fixture
def home(tmp_path):
    random = np.random.default_rng(0)
    for number, photo in enumerate(random_images(8, 80)):
        (tmp_path / "photos").mkdir(exist_ok=True)
        Image.fromarray(photo).save(tmp_path / "photos" / f"{number}.png")
    for number in range(8):
        (tmp_path / "looks").mkdir(exist_ok=True)
        colors = random.integers(0, 256, (10, 10, 3), dtype=np.uint8)
        Image.fromarray(colors).resize((80, 80), 0).save(tmp_path / "looks" / f"{number}.png")
    return tmp_path


def words(home, *more):
    return (
        "train", "style-transfer", "--train-images", home / "photos", "--styles", home / "looks",
        "--model", "style_judges:pyramid", "--trust", "--side", 64, "--batch-size", 4,
        "--stimulus", "native", "--out", home / "style.pt", *more,
    )  # fmt: skip


def test_a_network_learns_and_is_used(run, home, monkeypatch):
    done = run(*words(home, "--steps", 12))
    assert done.status == 0, done.err
    assert "with 8 styles" in done.out and VARIABLE in done.out
    assert not (home / "style.state").exists()
    monkeypatch.setenv(VARIABLE, str(home / "style.pt"))
    clean = random_images(1, 80)
    made = ec.corrupt(clean, "style_transfer", severity=5)
    assert not np.array_equal(made, clean)
    assert_rejected(run(*words(home, "--steps", 12)), "already exists")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_what_is_learnt_brings_images_nearer_to_the_style_and_keeps_them_where_asked(home, run):
    from eyechart.images.imageset import load_images
    from eyechart.training.style_transfer import Cutouts

    before, after = home / "before.pt", home / "style.pt"
    assert run(*words(home, "--steps", 1)).status == 0
    after.rename(before)
    assert run(*words(home, "--steps", 250)).status == 0
    model = load_model("style_judges:pyramid", torch.device("cpu"), trust=True)
    judge = Features(model, torch.device("cpu"))
    contents = Cutouts(load_images(home / "photos", "native"), 64, torch.device("cpu"))(8, "x")
    looks = Cutouts(load_images(home / "looks", "native"), 64, torch.device("cpu"))(8, "y")
    apart = {}
    for path in (before, after):
        network = read_styles(path).network
        with torch.no_grad():
            means, deviations = statistics(network.encoder(looks))
            made = network(contents, means, deviations, torch.ones(8))
            same = network(contents, *statistics(network.encoder(contents)), torch.zeros(8))
            found, wanted = judge(made), judge(looks)
            style = sum(
                float((one - two).abs().mean())
                for depth in found
                for one, two in zip(
                    statistics(found[depth]), statistics(wanted[depth]), strict=True
                )
            )
        apart[path] = style, float((same - contents).abs().mean())
    assert apart[after][0] < 0.7 * apart[before][0]
    assert apart[after][1] < 0.7 * apart[before][1]


@pytest.mark.parametrize(
    ("more", "part"),
    [
        (("--steps", 0), "steps"),
        (("--side", 62), "side"),
        (("--side", 66), "multiple of 4"),
        (("--lr", 0), "lr"),
        (("--out", "style.txt"), ".pt"),
        (("--styles", "nowhere"), "nowhere"),
        (("--model", "nowhere:nothing"), "nowhere"),
    ],
)
def test_what_cannot_be_trained_is_one_sentence(run, home, more, part):
    assert_rejected(run(*words(home), *more), part)


def test_a_training_of_another_size_or_judge_is_another_one(run, home, monkeypatch):
    trained = style_transfer._StyleTraining.learn

    def stopped(own, n_done):
        if n_done == 2:
            raise KeyboardInterrupt
        trained(own, n_done)

    with monkeypatch.context() as patch:
        patch.setattr("eyechart.training.state.SAVE_EVERY", -1)
        patch.setattr(style_transfer._StyleTraining, "learn", stopped)
        assert run(*words(home, "--steps", 4)).status == 130
    assert (home / "style.state").exists()
    told = run(*words(home, "--steps", 4), "--stimulus", 72)
    assert_rejected(told, "different configuration", "stimulus: native, now 72")
    with monkeypatch.context() as patch:
        patch.setattr(pyramid.head.bias, "data", pyramid.head.bias.data + 1)
        assert_rejected(run(*words(home, "--steps", 4)), "different configuration", "model")
    assert run(*words(home, "--steps", 4)).status == 0


def test_a_training_that_diverges_at_its_end_writes_no_network(run, home, monkeypatch):
    usual, n_calls = style_transfer._StyleTraining._loss, count(1)

    def broken(own, *given):
        return usual(own, *given) * (float("nan") if next(n_calls) == 3 else 1)

    monkeypatch.setattr(style_transfer._StyleTraining, "_loss", broken)
    assert_rejected(run(*words(home, "--steps", 3)), "diverged", "--lr below")
    assert not (home / "style.pt").exists()


def test_training_leaves_torchs_random_numbers_alone(run, home):
    torch.manual_seed(7)
    wanted = torch.rand(4)
    torch.manual_seed(7)
    assert run(*words(home, "--steps", 1)).status == 0
    assert torch.equal(torch.rand(4), wanted)


def test_too_few_images_are_rejected(run, home):
    for path in sorted((home / "looks").iterdir())[:3]:
        path.unlink()
    assert_rejected(run(*words(home, "--steps", 2)), "must have at least 8 images")


def test_a_second_training_into_the_same_file_is_rejected_before_any_work(run, home):
    out = home / "style.pt"
    with lock_file(out):
        assert_rejected(run(*words(home, "--steps", 2)), "Another run is writing", out.name)
    assert not out.exists()


def test_a_folder_in_which_nothing_can_be_written_is_told_before_any_work(run, home):
    more = ("--out", "/proc/styles.pt", "--train-images", home / "none")
    told = run(*words(home, "--steps", 2), *more)
    assert_rejected(told, "Cannot write /proc/styles.pt")
