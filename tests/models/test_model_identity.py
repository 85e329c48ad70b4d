"""What identifies models that are given as Python objects, and when their runs are resumed."""

import functools

import pytest
import torch
from torch import nn

import eyechart as ec
from eyechart.models.find import load_model
from eyechart.models.model import identity_of
from small_models import save_images

CPU = torch.device("cpu")


def network(seed=0, classes=4):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        layers = [nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(48, classes)]
        module = nn.Sequential(*layers)
        module[2].weight.data *= 20
    return module.eval()


def in_closure(net):
    def model(images):
        return net(images)

    return model


def in_partial(net):
    def model(net, images):
        return net(images)

    return functools.partial(model, net)


class Unregistered(nn.Module):
    """A module with a registered scale and a network that it hides in a list."""

    def __init__(self, net):
        super().__init__()
        self.scale, self.nets = nn.Parameter(torch.ones(())), [net]

    def forward(self, images):
        return self.scale * self.nets[0](images)


def test_the_identity_of_a_module_covers_its_weights_and_classes():
    first, again, other = (load_model(network(seed), CPU) for seed in (0, 0, 1))
    assert first.identity == again.identity == identity_of(network()) != other.identity
    assert first.is_code


def test_a_prediction_does_not_change_the_identity():
    class Remembering(nn.Module):
        def __init__(self):
            super().__init__()
            self.net, self.latest, self.n_calls = network(), None, 0

        def forward(self, images):
            self.latest, self.n_calls = self.net(images), self.n_calls + 1
            return self.latest

    net = Remembering()
    before = load_model(net, CPU)
    with torch.inference_mode():
        net(torch.rand(2, 3, 32, 32))
    assert load_model(net, CPU).identity == before.identity


@pytest.mark.parametrize("kind", [in_closure, in_partial])
def test_a_function_has_no_identity(kind):
    model = load_model(kind(network()), CPU)
    assert model.identity == "" and model.is_code


# Resuming


QUICK = {"n": 24, "bins": 6, "min_per_bin": 3, "n_bootstrap": 10, "corruptions": ["brightness"]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_images(tmp_path_factory.mktemp("images"), each=2)


@pytest.mark.parametrize("kind", [nn.Sequential, in_closure, in_partial, Unregistered])
def test_a_run_of_another_network_is_not_resumed(kind, folder, tmp_path):
    first = ec.evaluate(kind(network(0)), folder, out=tmp_path, **QUICK)
    assert ec.evaluate(kind(network(0)), folder, out=tmp_path, **QUICK).models == first.models
    with pytest.raises(ec.UsageError, match=r"a run of a different .*; choose another --out"):
        ec.evaluate(kind(network(1)), folder, out=tmp_path, **QUICK)


def scaled(scale):
    """A function whose network is the same, and whose code has another number."""
    net = network()

    def model(images):
        return net(images) * scale

    return model


def test_other_code_is_noticed_by_its_predictions(folder, tmp_path):
    first = ec.evaluate(scaled(1.0), folder, out=tmp_path, **QUICK)
    assert ec.evaluate(scaled(1.0), folder, out=tmp_path, **QUICK).models == first.models
    # the same classes, by other confidences
    with pytest.raises(
        ec.UsageError, match=r"a different version of model: \d+ of 16 recorded samples"
    ):
        ec.evaluate(scaled(2.0), folder, out=tmp_path, **QUICK)


def test_a_run_by_a_random_function_is_still_resumed(folder, tmp_path):
    def chance(images):
        return torch.rand(len(images), 4)

    for _ in range(2):
        results = ec.evaluate(chance, folder, out=tmp_path, **QUICK)
        assert any("not deterministic" in note for note in results.warnings)
