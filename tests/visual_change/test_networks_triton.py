"""Kernels for the features of networks against the torch code, in Triton's interpreter."""

import os

import pytest
import torch

from eyechart.visual_change.networks import backbones, network_rulers

if torch.cuda.is_available():
    pytest.skip("cuda_check_rulers.py compares the compiled kernels", allow_module_level=True)
# Triton reads this when it is imported, since decorators decide how kernels run.
os.environ["TRITON_INTERPRET"] = "1"
pytest.importorskip("triton", reason="Triton is part of CUDA builds of torch")

pytestmark = pytest.mark.slow


@pytest.fixture
def features():
    """Features after a ReLU, of an odd number of channels, with pixels that are all 0."""
    values = torch.randn((3, 5, 13, 10), generator=torch.Generator().manual_seed(0)).relu()
    values[1, :, 4] = 0
    return values.contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("side", [1, 2, 3])
def test_pooling_with_a_maximum_and_a_blur(features, side):
    from eyechart.visual_change.networks.networks_triton import pool_in_triton

    expected = backbones.BlurPool(side)(features)
    pooled = pool_in_triton(features, side)
    assert pooled.shape == expected.shape
    assert torch.allclose(pooled, expected, atol=1e-6)


def test_pooling_by_the_root_of_the_mean_square(features):
    from eyechart.visual_change.networks.networks_triton import pool_in_triton

    expected = backbones.RootMeanSquarePool()(features)
    assert torch.allclose(pool_in_triton(features, is_root_mean_square=True), expected, atol=1e-6)


def test_differences_of_scaled_features(features):
    from eyechart.visual_change.networks.networks_triton import difference_in_triton

    indices, head = torch.tensor([2, 0, 1]), torch.rand(5)
    after = features.flip(2).half()
    scaled = [
        network_rulers.LPIPS_RULER.prepare(features, [values])[0] for values in (features, after)
    ]
    expected = network_rulers._difference(scaled[0], indices, scaled[1], head)
    computed = difference_in_triton(features, indices, after, head)
    assert computed.dtype == torch.float64 and expected.min() > 0
    assert torch.allclose(computed, expected, rtol=1e-6)


def test_moments(features):
    from eyechart.visual_change.networks.networks_triton import moments_in_triton

    indices, after = torch.tensor([2, 0, 1]), features.flip(2)
    expected = network_rulers._moments(features, indices, after)
    assert torch.allclose(moments_in_triton(features, indices, after), expected, rtol=1e-6)
