"""The identity of functions and modules covers networks wherever they keep them."""

import functools

import numpy as np
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


def in_inner_closure(net):
    def wrapped(images):
        return in_closure(net)(images)

    return torch.no_grad()(wrapped)


def in_default(net):
    def model(images, net=net):
        return net(images)

    return model


def in_keyword_default(net):
    def model(images, *, net=net):
        return net(images)

    return model


def in_partial(net):
    def model(net, images):
        return net(images)

    return functools.partial(model, net)


class Wrapper:
    def __init__(self, net):
        self.parts = {"nets": [net]}

    def __call__(self, images):
        return self.parts["nets"][0](images)

    def predict(self, images):
        return self(images)


def in_method(net):
    return Wrapper(net).predict


def in_global(net):
    names = {"net": net, "__name__": "mine"}
    exec("def model(images):\n    return net(images)", names)
    return names["model"]


def as_tensors(net):
    weight, bias = net[2].weight.detach().clone(), net[2].bias.detach().clone()

    def model(images):
        return nn.functional.adaptive_avg_pool2d(images, 4).flatten(1) @ weight.T + bias

    return model


def as_arrays(net):
    weight = net[2].weight.detach().numpy().copy()

    def model(images):
        pooled = nn.functional.adaptive_avg_pool2d(images, 4).flatten(1)
        return torch.from_numpy(pooled.numpy() @ weight.T)

    return model


class Unregistered(nn.Module):
    """A module with a registered scale and a network that it hides in a list."""

    def __init__(self, net):
        super().__init__()
        self.scale, self.nets = nn.Parameter(torch.ones(())), [net]

    def forward(self, images):
        return self.scale * self.nets[0](images)


def as_inner_class(net):
    class Inner(nn.Module):
        def forward(self, images):
            return net(images)

    return Inner()


def as_changed_forward(net):
    module = nn.Linear(2, 2)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.zero_()
    module.forward = lambda images: net(images)
    return module


KINDS = [
    *(in_closure, in_inner_closure, in_default, in_keyword_default, in_partial, Wrapper),
    *(in_method, in_global, as_tensors, as_arrays),
    *(Unregistered, as_inner_class, as_changed_forward),
]


@pytest.mark.parametrize("kind", KINDS)
def test_the_identity_follows_the_weights_wherever_they_are(kind):
    first, again, other = (load_model(kind(network(seed)), CPU) for seed in (0, 0, 1))
    assert first.identity == again.identity != other.identity
    assert len(first.identity) == len(other.identity) == 64
    assert first.is_code


@pytest.mark.parametrize("kind", KINDS)
def test_a_prediction_does_not_change_the_identity(kind):
    target = kind(network())
    before = load_model(target, CPU)
    before(torch.rand(2, 3, 32, 32))
    assert load_model(target, CPU).identity == before.identity


def test_what_a_model_keeps_of_its_predictions_is_not_part_of_the_identity():
    class Remembering(nn.Module):
        def __init__(self):
            super().__init__()
            self.net, self.latest, self.n_calls = network(), None, 0

        def forward(self, images):
            self.latest, self.n_calls = self.net(images), self.n_calls + 1
            return self.latest

    net = Remembering()
    for target in (net, in_closure(net)):
        before = load_model(target, CPU)
        with torch.inference_mode():
            net(torch.rand(2, 3, 32, 32))
        assert load_model(target, CPU).identity == before.identity


def test_a_module_that_registers_everything_keeps_its_identity():
    model = load_model(network(), CPU)
    assert model.identity == identity_of(network()) and not model.is_code


def test_a_function_without_state_has_no_identity():
    model = load_model(lambda images: images.mean(dim=(2, 3)), CPU)
    assert model.identity == "" and model.is_code


def test_objects_that_refer_to_each_other_end():
    one, two = Wrapper(None), Wrapper(None)
    one.parts, two.parts = {"nets": [network(), two]}, {"nets": [one, np.array([object()])]}
    assert len(load_model(one, CPU).identity) == 64


# Resuming


QUICK = {"n": 24, "bins": 6, "min_per_bin": 3, "n_bootstrap": 10, "corruptions": ["brightness"]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_images(tmp_path_factory.mktemp("images"), each=2)


@pytest.mark.parametrize("kind", [in_closure, in_partial, in_method, in_default, Unregistered])
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
    assert load_model(scaled(1.0), CPU).identity == load_model(scaled(2.0), CPU).identity
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
