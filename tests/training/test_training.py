"""The training loop: what it shows a network, how that learns, and that stopping costs nothing."""

import math
import os
import signal
import subprocess
import sys
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy, log_softmax, softmax
from torch.optim.lr_scheduler import CosineAnnealingLR, MultiStepLR

import eyechart as ec
from eyechart.corruptions.suites.apply import draw_random
from eyechart.corruptions.suites.assets import VARIABLE
from eyechart.corruptions.suites.strength import draw_from_domain
from eyechart.corruptions.suites.suite import find_entry
from eyechart.images.identity import named_keys
from eyechart.models.checkpoint import read_checkpoint
from eyechart.models.find import load_model
from eyechart.models.model import Preprocessing
from eyechart.training import image_blocks, training_loop
from eyechart.training.corruption_mixture import Mixture
from eyechart.training.data import training_data
from eyechart.training.image_blocks import mirror, mixing_weights, shift
from eyechart.training.recipe import Recipe
from places import SUPPORT
from real_images import real_images
from small_models import save_images
from trainable import CPU, NOISE, SIDE, STEPS, data_of, train

NOISE_NAME = "gaussian_noise"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_images(tmp_path_factory.mktemp("train") / "photos", each=8, side=SIDE)


@pytest.fixture(scope="module")
def data(folder):
    """32 pictures of 4 classes: with batches of 8, 4 steps make an epoch."""
    return data_of(folder)


@pytest.fixture(scope="module")
def whole(data, tmp_path_factory):
    """The weights after a training that nothing stopped."""
    return train(data, tmp_path_factory.mktemp("whole") / "net.pt")


def images_of(data):
    return data.images.batch(range(len(data)))


def same(one, two):
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


class Stopping:
    """Somebody presses Ctrl-C after so many steps."""

    def __init__(self, after, press):
        self.left, self.press = after, press

    def begin(self, title, total):
        def step(count, message):
            if not self.left:
                self.press()
            self.left -= 1

        return step


def interrupt():
    raise KeyboardInterrupt


def press_ctrl_c():
    os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture
def seen(monkeypatch):
    """Every batch that the network learns from: pictures, classes and the rate."""
    batches, learn = [], training_loop._Run._learn

    def note(run, module, images, labels):
        learn(run, module, images, labels)
        rate = run.optimizer.param_groups[0]["lr"]
        batches.append((images.clone(), labels.clone(), rate))

    monkeypatch.setattr(training_loop._Run, "_learn", note)
    return batches


# Stopped and gone on with


@pytest.mark.parametrize("press", [interrupt, press_ctrl_c])
@pytest.mark.parametrize("after", [1, 3, 4, 7, 11])
def test_a_training_that_was_stopped_ends_with_the_same_bits(data, whole, tmp_path, after, press):
    path = tmp_path / "net.pt"
    with pytest.raises(KeyboardInterrupt):
        train(data, path, progress=Stopping(after, press))
    assert not path.exists() and path.with_suffix(".state").exists()
    assert same(train(data, path), whole)
    assert not path.with_suffix(".state").exists()


def test_a_training_may_be_stopped_after_every_step(data, whole, tmp_path):
    path = tmp_path / "net.pt"
    for _ in range(12):
        with pytest.raises(KeyboardInterrupt):
            train(data, path, progress=Stopping(1, interrupt))
    assert same(train(data, path), whole)


def test_a_stop_in_the_middle_of_a_step_loses_the_step_and_no_more(
    data, whole, tmp_path, monkeypatch
):
    path, step, left = tmp_path / "net.pt", torch.optim.SGD.step, [5]

    def stopped(optimizer, *given):
        step(optimizer, *given)
        left[0] -= 1
        if not left[0]:
            # twice, which does not wait for the end of the step
            press_ctrl_c()
            press_ctrl_c()

    monkeypatch.setattr(torch.optim.SGD, "step", stopped)
    with pytest.raises(KeyboardInterrupt):
        train(data, path)
    assert same(train(data, path), whole)


def test_how_many_images_are_made_together_changes_nothing(data, whole, tmp_path, monkeypatch):
    monkeypatch.setattr(image_blocks, "BLOCK_PIXELS", {"cpu": 3 * 8 * SIDE * SIDE})
    assert same(train(data, tmp_path / "net.pt"), whole)


def test_images_that_do_not_fit_into_memory_change_nothing(data, whole, tmp_path, monkeypatch):
    monkeypatch.setattr("eyechart.training.data.HELD_SHARE", 0.0)
    assert same(train(data, tmp_path / "net.pt"), whole)


def test_a_training_that_crashed_goes_on_from_where_it_was_last_written_down(
    data, whole, tmp_path, monkeypatch
):
    def crash():
        raise MemoryError

    monkeypatch.setattr("eyechart.training.state.SAVE_EVERY", 0.0)
    monkeypatch.setattr(image_blocks, "BLOCK_PIXELS", {"cpu": 2 * 8 * SIDE * SIDE})
    path, told = tmp_path / "net.pt", Stopping(6, crash)
    with pytest.raises(MemoryError):
        train(data, path, progress=told)
    rest = Stopping(100, interrupt)
    assert same(train(data, path, progress=rest), whole)
    # the 5 steps before the one that crashed were on disk; the first call tells of those
    assert 100 - rest.left == 1 + 12 - 5


def in_another_process(*given, command=(sys.executable,)):
    path = os.pathsep.join([str(SUPPORT), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        [*command, str(SUPPORT / "trainable.py"), *map(str, given)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        text=True,
    )


@pytest.mark.slow
def test_a_training_that_was_killed_ends_with_the_same_bits(folder, data, whole, tmp_path):
    path = tmp_path / "net.pt"
    with in_another_process(folder, path, "small", tmp_path / "weights") as process:
        for _ in range(6):
            assert process.stdout.readline()
        process.kill()
    assert path.with_suffix(".state").exists() and not path.exists()
    assert same(train(data, path), whole)


@pytest.mark.slow
def test_two_processes_of_torchrun_learn_what_one_does(folder, data, tmp_path):
    torchrun = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
    path = tmp_path / "two.pt"
    with in_another_process(folder, path, "plain", tmp_path / "w", command=torchrun) as process:
        process.communicate()
    assert process.returncode == 0
    one, two = train(data, tmp_path / "one.pt", "plain"), read_checkpoint(path).weights
    for name in one:
        torch.testing.assert_close(two[name], one[name], atol=1e-5, rtol=0)


def test_a_finished_training_is_not_done_again(data, tmp_path):
    path = tmp_path / "net.pt"
    train(data, path)
    before = path.stat().st_mtime_ns
    train(data, path, progress=Stopping(0, interrupt))
    assert path.stat().st_mtime_ns == before


def test_the_seed_decides(data, whole, tmp_path):
    assert same(train(data, tmp_path / "again.pt"), whole)
    assert not same(train(data, tmp_path / "other.pt", seed=1), whole)


def test_training_leaves_the_random_numbers_of_others_alone(data, tmp_path):
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    train(data, tmp_path / "net.pt", epochs=1)
    assert torch.equal(torch.rand(4), expected)


# What the network sees


def known(made):
    return {image.numpy().tobytes(): place for place, image in enumerate(made)}


@pytest.mark.parametrize("share", [0.25, 0.5, 1.0])
def test_so_many_of_each_batch_are_corrupted_and_as_corrupt_does_it(data, tmp_path, seen, share):
    train(data, tmp_path / "net.pt", "linear", share=share, flip=0.0, crop=0, epochs=2, seed=4)
    clean = images_of(data)
    digests = list(data.images.digests)
    originals, met = known(clean), set()
    for epoch in range(2):
        levels = [
            known(ec.corrupt(clean, NOISE_NAME, severity=s, seed=4, draw=epoch, keys=digests))
            for s in range(1, 6)
        ]
        shown = []
        for images, labels, _ in seen[4 * epoch : 4 * epoch + 4]:
            corrupted = 0
            for image, label in zip(images, labels, strict=True):
                content = image.numpy().tobytes()
                place = originals.get(content)
                if place is None:
                    strength, own = next((s, o) for s, o in enumerate(levels) if content in o)
                    place = own[content]
                    corrupted += 1
                    met.add(strength)
                assert label == data.labels[place]
                shown.append(place)
            assert corrupted == round(share * 8)
        assert sorted(shown) == list(range(32))
    assert len(met) == (5 if share == 1 else len(met))


def test_images_come_in_another_order_and_another_corruption_every_epoch(data, tmp_path, seen):
    train(data, tmp_path / "net.pt", "linear", flip=0.0, crop=0)
    firsts = [torch.cat([batch for batch, _, _ in seen[start : start + 4]]) for start in (0, 4, 8)]
    sets = [set(known(each)) for each in firsts]
    assert not torch.equal(firsts[0], firsts[1])
    assert not (sets[0] & sets[1]) - set(known(images_of(data)))


def test_a_range_of_severities_is_met_evenly():
    entry = find_entry(NOISE_NAME, None)
    images = torch.full((200, 3, 24, 24), 128, dtype=torch.uint8)
    names = [f"picture {place}" for place in range(200)]
    keys = named_keys(names, 200)
    made = Mixture((entry,), severity=(2.0, 2.0)).corrupt(images, keys, 1, 5)
    expected = ec.corrupt(images, NOISE_NAME, severity=2, seed=1, draw=5, keys=names)
    assert torch.equal(made, expected)
    # the tables of noise between levels 1 and 3 are 0.08, 0.12, 0.18 for large pictures
    ends = [ec.corrupt(images, NOISE_NAME, severity=s, keys=names).float().std() for s in (1, 3)]
    spread = Mixture((entry,), severity=(1.0, 3.0)).corrupt(images, keys, 1, 5)
    levels = spread.float().std(dim=(1, 2, 3)).sort().values
    assert float(ends[0]) * 0.9 < levels[0] < float(ends[0]) * 1.1
    assert float(ends[1]) * 0.9 < levels[-1] < float(ends[1]) * 1.1
    middle = ec.corrupt(images, NOISE_NAME, severity=2, keys=names).float().std()
    assert abs(int((levels < middle).sum()) - 100) < 25


def test_a_domain_is_drawn_from_for_each_image(data):
    entry = find_entry("vcr/gaussian_noise", None)
    clean, digests = images_of(data), list(data.images.digests)
    made = Mixture((entry,)).corrupt(clean, data.keys, 2, 7)
    drawn = draw_from_domain(entry, draw_random(entry, data.keys, 2, [7] * len(clean), CPU))
    assert np.unique(drawn["sigma"]).size == len(clean)
    again = ec.corrupt(clean, "vcr/gaussian_noise", seed=2, draw=7, keys=digests, **drawn)
    assert torch.equal(made, again)


def test_a_range_of_visual_change_is_what_images_change_by():
    whole = torch.from_numpy(real_images()).permute(0, 3, 1, 2)
    clean = torch.cat([whole[..., :80, :80], whole[..., 100:180, 100:180]])
    keys = named_keys(range(len(clean)), len(clean))
    entry = find_entry("vcr/gaussian_noise", None)
    mixture = Mixture((entry,), delta_v=(0.5, 0.6)).measured(clean, keys)
    found = [ec.delta_v(clean, mixture.corrupt(clean, keys, 0, draw)) for draw in range(3)]
    # the range is that of means over pictures, which differ among themselves
    assert float(torch.stack(found).mean()) == pytest.approx(0.55, abs=0.04)


def test_one_of_several_corruptions_is_met_by_each_image(data):
    names = ("contrast", "jpeg_compression", "pixelate")
    clean, digests = images_of(data), list(data.images.digests)
    mixture = Mixture(tuple(find_entry(name, None) for name in names), severity=(3.0, 3.0))
    made = mixture.corrupt(clean, data.keys, 0, 0)
    each = [ec.corrupt(clean, name, severity=3, keys=digests) for name in names]
    counts = [int((made == own).all(dim=(1, 2, 3)).sum()) for own in each]
    assert sum(counts) == len(clean)
    assert min(counts) >= 3


def test_mirrored_and_shifted_images_are_what_numpy_makes_of_them(data):
    images = images_of(data)[:6]
    which = torch.tensor([True, False, True, False, False, True])
    offsets = torch.tensor([[0, 0], [3, 3], [6, 6], [1, 5], [0, 6], [3, 2]])
    found = shift(mirror(images, which), offsets, 3)
    for place in range(6):
        own = images[place].numpy()
        own = own[:, :, ::-1] if which[place] else own
        wide = np.pad(own, ((0, 0), (3, 3), (3, 3)))
        down, across = offsets[place].tolist()
        expected = wide[:, down : down + SIDE, across : across + SIDE]
        np.testing.assert_array_equal(found[place].numpy(), expected)


def test_the_loop_mirrors_and_shifts_as_often_as_asked(data, tmp_path, seen):
    train(data, tmp_path / "net.pt", "linear", Mixture(), flip=0.5, crop=1, epochs=10)
    ways = {}
    wide = np.pad(images_of(data).numpy(), ((0, 0), (0, 0), (1, 1), (1, 1)))
    for down, across, flip in product(range(3), range(3), (False, True)):
        # mirrored first, then cut out
        own = (wide[..., ::-1] if flip else wide)[..., down : down + SIDE, across : across + SIDE]
        for place, image in enumerate(own):
            ways[image.tobytes()] = (place, down, across, flip)
    found = [
        (*ways[image.numpy().tobytes()], int(label))
        for images, labels, _ in seen
        for image, label in zip(images, labels, strict=True)
    ]
    assert all(label == data.labels[place] for place, *_, label in found)
    flips = [flip for _, _, _, flip, _ in found]
    assert abs(np.mean(flips) - 0.5) < 4 * 0.5 / math.sqrt(320)
    for axis in (1, 2):
        counts = np.bincount([each[axis] for each in found], minlength=3)
        assert counts.min() > 320 / 3 - 4 * math.sqrt(320 * 2 / 9)


def test_no_image_is_mirrored_or_every_one(data, tmp_path, seen):
    train(data, tmp_path / "a.pt", "linear", Mixture(), flip=0.0, crop=0, epochs=1)
    train(data, tmp_path / "b.pt", "linear", Mixture(), flip=1.0, crop=0, epochs=1)
    clean = images_of(data)
    assert set(known(torch.cat([each for each, _, _ in seen[:4]]))) == set(known(clean))
    assert set(known(torch.cat([each for each, _, _ in seen[4:]]))) == set(known(clean.flip(3)))


# How it learns


def rates_of(make, steps):
    """The rates of one of torch's own schedules."""
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], 0.3)
    schedule, rates = make(optimizer), []
    for _ in range(steps):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return rates


@pytest.mark.parametrize(
    ("n_images", "n_processes", "batch", "steps"),
    [(100, 1, 32, 3), (32, 1, 32, 1), (20, 1, 20, 1), (20, 3, 18, 1), (100, 2, 32, 3)],
)
def test_a_training_is_as_long_as_whole_batches_make_it(n_images, n_processes, batch, steps):
    length = Recipe(epochs=4, batch_size=32).length(n_images, n_processes)
    assert (length.batch_size, length.steps_per_epoch) == (batch, steps)
    assert (length.steps, length.images) == (4 * steps, 4 * steps * batch)


def test_the_cosine_schedule_is_torchs():
    recipe = Recipe(epochs=5, lr=0.3, schedule="cosine")
    found = [recipe.lr_at(step, recipe.length(7 * recipe.batch_size)) for step in range(35)]
    assert found == pytest.approx(rates_of(lambda own: CosineAnnealingLR(own, 35), 35))
    assert found[0] == 0.3
    assert found[30] == pytest.approx(0.15 * (1 + math.cos(math.pi * 30 / 35)))


def test_the_step_schedule_is_torchs_and_the_papers():
    recipe = Recipe(epochs=8, lr=0.3)
    found = [recipe.lr_at(step, recipe.length(5 * recipe.batch_size)) for step in range(40)]
    assert found == pytest.approx(rates_of(lambda own: MultiStepLR(own, [20, 30]), 40))
    paper = Recipe()
    by_epoch = [
        paper.lr_at(100 * epoch, paper.length(100 * paper.batch_size)) for epoch in range(40)
    ]
    assert by_epoch == pytest.approx([0.1] * 20 + [0.01] * 10 + [0.001] * 10)


def test_the_rate_rises_in_a_straight_line_first():
    recipe = Recipe(epochs=4, lr=0.2, schedule="constant", warmup=0.5)
    found = [recipe.lr_at(step, recipe.length(10 * recipe.batch_size)) for step in range(40)]
    assert found[:5] == pytest.approx([0.04, 0.08, 0.12, 0.16, 0.2])
    assert set(found[5:]) == {0.2}
    both = replace(recipe, schedule="cosine")
    after = [0.1 * (1 + math.cos(math.pi * k / 35)) for k in range(35)]
    assert [
        both.lr_at(step, both.length(10 * both.batch_size)) for step in range(5, 40)
    ] == pytest.approx(after)


def test_the_loop_keeps_to_the_schedule(data, tmp_path, seen):
    train(data, tmp_path / "net.pt", "linear", schedule="cosine", epochs=2)
    expected = [0.025 * (1 + math.cos(math.pi * step / 8)) for step in range(8)]
    assert [rate for _, _, rate in seen] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("momentum", "nesterov", "decay"), [(0.0, False, 0.0), (0.9, False, 1e-2), (0.8, True, 1e-3)]
)
def test_a_linear_network_learns_what_a_loop_by_hand_does(
    data, tmp_path, seen, momentum, nesterov, decay
):
    asked = {"momentum": momentum, "nesterov": nesterov, "weight_decay": decay}
    start = training_loop.new_network("trainable:linear", data, 0, STEPS).module[1]
    found = train(data, tmp_path / "net.pt", "linear", schedule="cosine", **asked)
    weights = torch.cat([start.weight, start.bias[:, None]], dim=1).detach().double()
    velocity = torch.zeros_like(weights)
    mean, std = (
        torch.tensor(each).reshape(1, 3, 1, 1).double() for each in (STEPS.mean, STEPS.std)
    )
    for images, labels, rate in seen:
        x = ((images.double() / 255 - mean) / std).flatten(1)
        x = torch.cat([x, torch.ones(len(x), 1).double()], dim=1)
        wrong = (x @ weights.T).softmax(dim=1)
        wrong[torch.arange(len(x)), labels] -= 1
        gradient = wrong.T @ x / len(x) + decay * weights
        velocity = momentum * velocity + gradient
        weights = weights - rate * (gradient + momentum * velocity if nesterov else velocity)
    torch.testing.assert_close(found["1.weight"].double(), weights[:, :-1], atol=2e-5, rtol=1e-4)
    torch.testing.assert_close(found["1.bias"].double(), weights[:, -1], atol=2e-5, rtol=1e-4)


@pytest.fixture
def losses(monkeypatch):
    """What goes into the network and comes out of it at every step, and the loss."""
    steps, plain = [], training_loop._Run._loss

    def note(run, module, unit, labels, own):
        inputs, outputs = [], []
        hook = module.register_forward_hook(
            lambda _, given, scores: (
                (inputs.append(given[0].clone()), outputs.append(scores))[2:] or None
            )
        )
        loss = plain(run, module, unit, labels, own)
        hook.remove()
        steps.append((unit, labels, inputs, [each.detach() for each in outputs], loss.detach()))
        return loss

    monkeypatch.setattr(training_loop._Run, "_loss", note)
    return steps


def test_mixup_mixes_images_and_their_losses_alike(data, tmp_path, losses):
    train(data, tmp_path / "net.pt", "linear", Mixture(), mixup=1.0, steps=Preprocessing())
    shares = []
    for unit, labels, (mixed,), (scores,), loss in losses:
        flat, own = unit.flatten(1), mixed.flatten(1)
        # the same share everywhere, and for every picture a partner: solved for, not drawn again
        found = []
        for place, other in product(range(8), repeat=2):
            apart = flat[place] - flat[other]
            if not torch.allclose(own[place], flat[place], atol=1e-5) and place != other:
                share = float(((own[place] - flat[other]) @ apart) / (apart @ apart))
                left = (share * flat[place] + (1 - share) * flat[other] - own[place]).abs().max()
                if left < 1e-4:
                    found.append((place, other, share))
        paired = {place: other for place, other, _ in found}
        share = found[0][2]
        assert all(each == pytest.approx(share, abs=1e-3) for *_, each in found)
        # whoever has no other partner is mixed with itself
        partner = torch.tensor([paired.get(place, place) for place in range(8)])
        assert sorted(partner.tolist()) == list(range(8))
        expected = share * cross_entropy(scores, labels)
        expected += (1 - share) * cross_entropy(scores, labels[partner])
        assert float(loss) == pytest.approx(float(expected), abs=1e-4)
        shares.append(share)
    assert len({round(share, 3) for share in shares}) > 8


def test_mixup_per_image_has_a_weight_of_its_own_for_every_image(data, tmp_path, losses):
    asked = {"mixup": 1.0, "mixup_per_image": True, "steps": Preprocessing()}
    train(data, tmp_path / "net.pt", "linear", Mixture(), **asked)
    spreads = []
    for unit, labels, (mixed,), (scores,), loss in losses:
        flat, own = unit.flatten(1), mixed.flatten(1)
        expected, shares = 0.0, []
        for place in range(8):
            # whichever two images of the batch, and in which shares: by least squares
            fits = []
            for other in range(8):
                apart = flat[place] - flat[other]
                share = float((own[place] - flat[other]) @ apart / (apart @ apart).clamp_min(1e-9))
                left = (share * flat[place] + (1 - share) * flat[other] - own[place]).abs().max()
                fits.append((float(left), other, share))
            left, other, share = min(fits)
            assert left < 1e-4
            both = [float(cross_entropy(scores[place], labels[n])) for n in (place, other)]
            expected += (share * both[0] + (1 - share) * both[1]) / 8
            shares += [share] if other != place else []
        assert float(loss) == pytest.approx(expected, abs=1e-4)
        spreads.append(max(shares) - min(shares))
    # Beta(1, 1) is even: several of its draws lie apart, those of one weight would not
    assert len(spreads) > 8 and np.mean(spreads) > 0.5


@pytest.mark.parametrize("strength", [0.2, 1.0, 4.0])
def test_shares_of_mixup_have_the_moments_of_beta(strength):
    drawn = torch.cat([mixing_weights(strength, 3, 0, step, 0) for step in range(1000)]).numpy()
    assert drawn.mean() == pytest.approx(0.5, abs=0.03)
    assert drawn.var() == pytest.approx(1 / (4 * (2 * strength + 1)), rel=0.1)


def test_stability_adds_the_cross_entropy_of_predictions_to_noisy_images(data, tmp_path, losses):
    asked = {"stability": 0.3, "stability_width": 0.1, "steps": Preprocessing()}
    train(data, tmp_path / "net.pt", "linear", Mixture(), **asked)
    for unit, labels, (given, near), (scores, others), loss in losses:
        assert torch.equal(given, unit)
        noise = near - given
        assert 0.099 < float(noise.abs().max()) <= 0.1 + 1e-6
        inside = (given > 0.1) & (given < 0.9)
        assert float(noise[inside].mean()) == pytest.approx(0, abs=0.005)
        assert float(noise[inside].var()) == pytest.approx(0.1**2 / 3, rel=0.05)
        assert not torch.equal(noise[0], noise[1])
        cross = -(softmax(scores, 1) * log_softmax(others, 1)).sum(1).mean()
        expected = cross_entropy(scores, labels) + 0.3 * cross
        assert float(loss) == pytest.approx(float(expected), rel=1e-5)


def test_training_teaches(data, tmp_path):
    path = tmp_path / "net.pt"
    train(data, path, "small", epochs=25, schedule="cosine", crop=0)
    model = load_model(str(path), CPU, trust=True)
    hits = model(images_of(data)).argmax(dim=1) == data.labels
    assert float(hits.float().mean()) > 0.8


# Checkpoints


def test_a_checkpoint_is_a_model_that_predicts_as_the_trained_network_did(data, tmp_path):
    path = tmp_path / "net.pt"
    start = training_loop.new_network("trainable:small", data, 0, STEPS)
    recipe = Recipe(epochs=2, batch_size=8)
    training_loop.train(
        training_loop.Training(start, data, recipe, NOISE), CPU, path, loop_silent()
    )
    model = load_model(str(path), CPU, trust=True)
    assert model.class_names == data.class_names == ("blue", "green", "grey", "red")
    assert model.trained_on == (NOISE_NAME,)
    assert model.preprocessing == STEPS
    given = images_of(data)
    mean, std = (torch.tensor(each).reshape(1, 3, 1, 1) for each in (STEPS.mean, STEPS.std))
    with torch.no_grad():
        expected = start.module.eval()((given.float() / 255 - mean) / std)
    torch.testing.assert_close(model(given), expected, atol=1e-5, rtol=1e-4)
    assert load_model(str(path), CPU, trust=True).identity == model.identity != ""


def loop_silent():
    from eyechart.core.progress import NO_PROGRESS

    return NO_PROGRESS


def test_training_goes_on_with_a_checkpoint_and_remembers_all_it_met(data, tmp_path):
    path = tmp_path / "net.pt"
    train(data, path)
    base = load_model(str(path), CPU, trust=True)
    start = training_loop.InitialModel(
        base.module, "", str(path), (), base.preprocessing, base.trained_on
    )
    more = Mixture((find_entry("contrast", None),))
    training = training_loop.Training(start, data, Recipe(epochs=1, batch_size=8), more)
    training_loop.train(training, CPU, tmp_path / "b.pt", loop_silent())
    found = load_model(str(tmp_path / "b.pt"), CPU, trust=True)
    assert found.trained_on == (NOISE_NAME, "contrast")
    assert found.class_names == base.class_names
    assert found.preprocessing == base.preprocessing


CHANGES = {
    "lr": {"lr": 0.01},
    "epochs": {"epochs": 4},
    "seed": {"seed": 1},
    "start": {"network": "plain"},
    "corruptions": {"mixture": Mixture()},
    "severity": {"mixture": replace(NOISE, severity=(1.0, 2.0))},
}


def assert_one_sentence(rejected, *words):
    text = str(rejected.value)
    assert text.endswith(".") and "\n" not in text
    for word in words:
        assert word in text, text


@pytest.mark.parametrize("finished", [True, False])
@pytest.mark.parametrize("name", CHANGES)
def test_a_file_of_another_configuration_is_rejected(data, tmp_path, name, finished):
    path = tmp_path / "net.pt"
    if finished:
        train(data, path, epochs=1)
    else:
        with pytest.raises(KeyboardInterrupt):
            train(data, path, epochs=1, progress=Stopping(2, interrupt))
    with pytest.raises(ec.UsageError) as rejected:
        train(data, path, **{"epochs": 1, **CHANGES[name]})
    assert_one_sentence(rejected, "different configuration", name, path.stem)


def test_a_file_of_another_preprocessing_is_rejected(data, tmp_path):
    path = tmp_path / "net.pt"
    train(data, path, epochs=1)
    with pytest.raises(ec.UsageError, match="different configuration"):
        train(data, path, epochs=1, steps=Preprocessing())


def test_a_file_of_other_images_is_rejected(data, tmp_path):
    path = tmp_path / "net.pt"
    train(data, path, epochs=1)
    others = data_of(save_images(tmp_path / "others", each=3, side=SIDE))
    with pytest.raises(ec.UsageError) as rejected:
        train(others, path, epochs=1)
    assert_one_sentence(rejected, "different configuration", "data")


def test_a_file_of_images_of_another_size_is_rejected(folder, data, tmp_path):
    path = tmp_path / "net.pt"
    with pytest.raises(KeyboardInterrupt):
        train(data, path, epochs=1, progress=Stopping(2, interrupt))
    larger = training_data(ec.load_images(folder, "32"))
    with pytest.raises(ec.UsageError) as rejected:
        train(larger, path, epochs=1)
    assert_one_sentence(rejected, "different configuration", "stimulus: native, now 32")


@pytest.mark.usefixtures("with_styles")
def test_a_training_with_another_style_transfer_is_another_one(tmp_path, monkeypatch, style_file):
    mixture = Mixture((find_entry("style_transfer"),))
    first = mixture.settings()
    assert mixture.settings() == first
    other = tmp_path / "other.pt"
    other.write_bytes(style_file.read_bytes() + b"\0")
    monkeypatch.setenv(VARIABLE, str(other))
    assert mixture.settings() != first


@pytest.mark.parametrize("ending", [".pt", ".state"])
@pytest.mark.parametrize("left", [0, 100, 3000])
def test_a_file_that_was_cut_off_is_rejected(data, tmp_path, ending, left):
    path = tmp_path / "net.pt"
    with pytest.raises(KeyboardInterrupt):
        train(data, path, progress=Stopping(2, interrupt))
    if ending == ".pt":
        train(data, path)
    broken = path.with_suffix(ending)
    broken.write_bytes(broken.read_bytes()[:left])
    with pytest.raises(ec.UsageError) as rejected:
        train(data, path)
    assert_one_sentence(rejected, str(broken))


def test_a_training_that_diverges_is_told_and_leaves_no_checkpoint(data, tmp_path):
    path = tmp_path / "net.pt"
    with pytest.raises(ec.UsageError) as rejected:
        train(data, path, "plain", lr=100.0, momentum=0.99, weight_decay=1.0, epochs=30)
    assert_one_sentence(rejected, "diverged", "--lr below")
    assert not path.exists()


# What cannot be trained with


def test_a_class_of_one_image_is_rejected(folder, tmp_path):
    images = save_images(tmp_path / "few", each=2, side=SIDE)
    next((images / "grey").iterdir()).unlink()
    with pytest.raises(ec.UsageError) as rejected:
        data_of(images)
    assert_one_sentence(rejected, "'grey'", "at least 2 images")


def test_images_of_one_class_of_several_sizes_or_without_labels_are_rejected(folder, tmp_path):
    one = save_images(tmp_path / "one", each=2, side=SIDE, tints=("red",))
    with pytest.raises(ec.UsageError) as rejected:
        data_of(one)
    assert_one_sentence(rejected, "one class", "'red'")
    with pytest.raises(ec.UsageError) as rejected:
        data_of(one / "red")
    assert_one_sentence(rejected, "no label")
    two = save_images(tmp_path / "two", each=2, side=SIDE)
    save_images(two, each=2, side=30, tints=("red",))
    with pytest.raises(ec.UsageError) as rejected:
        data_of(two)
    assert_one_sentence(rejected, "20 × 20", "30 × 30")


BAD = {
    "epochs": (0, 1.5, True), "batch_size": (1, 0), "lr": (0.0, -1.0, math.nan, math.inf),
    "momentum": (1.0, -0.1), "weight_decay": (-1e-4,), "schedule": ("cosin", ""),
    "milestones": ((0.5, 1.5),), "warmup": (-1.0,), "share": (-0.1, 1.1, math.nan), "flip": (2.0,),
    "crop": (-1, 0.5), "mixup": (-1.0,), "stability": (-1.0,), "stability_width": (2.0,),
    "precision": ("float64",), "seed": (1.5, 2**70),
}  # fmt: skip


@pytest.mark.parametrize(("name", "value"), [(k, v) for k, values in BAD.items() for v in values])
def test_a_recipe_that_makes_no_sense_is_rejected(name, value):
    with pytest.raises(ec.UsageError) as rejected:
        Recipe(**{name: value}).check()
    assert str(rejected.value).endswith((".", "?"))
    assert name in str(rejected.value)


def test_a_milestone_may_be_anywhere_and_labels_keep_their_names(folder, data):
    Recipe(milestones=(0.0, 1.0)).check()
    again = training_data(data.images, ("red", "grey", "green", "blue"))
    assert torch.equal(again.labels, 3 - data.labels)


def test_a_share_that_corrupts_nothing_is_rejected(data, tmp_path):
    with pytest.raises(ec.UsageError, match="no image in a batch of 8"):
        train(data, tmp_path / "net.pt", "linear", share=0.05)
