"""Checks registration and the ruler vif-human on a GPU; fails where the bounds do not hold.

Values on the GPU equal those on the CPU, maps equal those of torch's own operations on the same
GPU, an image alone has the value that it has in a batch, and registration takes at most as long as
VIF, on batches of 256 images of 224 px. A part that fails is reported, and the others go on:
`python tests/support/cuda_check_registration.py`.
"""

import statistics
import time
import traceback
from contextlib import ExitStack, contextmanager
from functools import cache
from unittest import mock

import numpy as np
import torch
from torch.profiler import ProfilerActivity, profile

import eyechart as ec
from eyechart.visual_change.gray import to_gray
from eyechart.visual_change.registration import estimate, refinement, search, warping
from eyechart.visual_change.registration.estimate import describe_copies, register
from eyechart.visual_change.registration.human_ruler import HUMAN_RULER
from eyechart.visual_change.vif.rulers import VCR_RULER
from moved_images import LINEAR, NEAREST, map_of, move
from real_images import real_images

LARGEST_GAP = 1e-3
WANTED_GAP = 1e-5
BATCH = 256
ROUNDS = 30
KERNELS_SHOWN = 12
SIZE = (224, 224)
CORRUPTIONS = ("gaussian_noise", "motion_blur", "fog", "contrast", "jpeg_compression")
failures = []


def attempt(title, work):
    """Return the result of `work`; report its error and return None if it fails."""
    try:
        result = work()
        # errors of kernels appear only when their results are waited for
        torch.cuda.synchronize()
    except Exception as error:
        failures.append(f"{title}: {type(error).__name__}")
        lines = traceback.format_exc().splitlines()
        print(f"FAILED {title}:", *lines[-12:], sep="\n    ")
        return None
    return result


@contextmanager
def without_kernels():
    """Let registration use torch's own operations."""
    with ExitStack() as stack:
        for module in (estimate, refinement, search, warping):
            stack.enter_context(mock.patch.object(module, "has_triton", lambda _: False))
        yield


def moved_pairs():
    """Yield a name, a photograph and a moved copy, uint8 (3, 224, 224)."""
    backs = {
        "1 px": map_of(across=1),
        "1 degree": map_of(1),
        "30 degrees": map_of(30),
        "half": map_of(scale=0.5),
        "double": map_of(scale=2),
        "shift": map_of(across=40, down=-25),
        "mirror": map_of(150, is_mirrored=True),
        "shear": map_of(shear=0.3),
    }
    for place, (name, back) in enumerate(backs.items()):
        for rgb in real_images():
            planes = rgb.transpose(2, 0, 1)
            order = (LINEAR, NEAREST)[place % 2]
            yield name, planes, np.stack([move(plane, back, order) for plane in planes])


def pairs():
    """Return names, clean and corrupted images of moved and unmoved pairs."""
    table = list(moved_pairs())
    rgb = real_images()
    for name in CORRUPTIONS:
        for clean, corrupted in zip(rgb, ec.corrupt(rgb, name, severity=3), strict=True):
            table.append((name, clean.transpose(2, 0, 1), corrupted.transpose(2, 0, 1)))
    names, clean, corrupted = zip(*table, strict=True)
    return names, torch.from_numpy(np.stack(clean)), torch.from_numpy(np.stack(corrupted))


# ---- parts, each against torch's own operations


def parts_of(clean, corrupted):
    """Return the parts of registration of gray images by name, as functions without arguments."""
    gray = estimate.centered(clean)
    one, two = (estimate.levels_of(estimate.centered(images)) for images in (clean, corrupted))
    maps = warping.identity_maps(len(clean), gray)
    sixteen, five = (maps.repeat_interleave(number, dim=0) for number in (16, 5))
    # when it is first needed, so that its failure does not hide the other parts
    described = cache(lambda: search.describe_search(gray))
    parts = {"levels": lambda: estimate.levels_of(gray)[0]}
    for level, image in enumerate(one):
        parts[f"one step on level {level} ({image.shape[2]} cells)"] = lambda level=level: (
            refinement.refine(one[level], two[level], maps, SIZE, 1)
        )
        parts[f"agreement on level {level}"] = lambda level=level: estimate.compare_details(
            one[level], two[level], maps, SIZE
        )
    return parts | {
        "gain on level 0": lambda: estimate.compare_details(
            one[0], two[0], maps, SIZE, estimate.FINE
        ),
        "one step, 16 hypotheses, smallest level": lambda: refinement.refine(
            one[-1], two[-1], sixteen, SIZE, 1
        ),
        "one step, 5 hypotheses, next level": lambda: refinement.refine(
            one[-2], two[-2], five, SIZE, 1
        ),
        "agreement, 16 hypotheses, smallest level": lambda: estimate.compare_details(
            one[-1], two[-1], sixteen, SIZE
        ),
        "agreement, 5 hypotheses, next level": lambda: estimate.compare_details(
            one[-2], two[-2], five, SIZE
        ),
        "acceptance": lambda: estimate.is_geometric(one, two, maps, SIZE),
        "describe the search": lambda: search.describe_search(gray),
        "scores of the search": lambda: search._best_shifts(described(), two[0])[0],
        "search": lambda: search.search(described(), two[0], 16),
    }


def check_parts():
    """Print the largest difference between each part's results in Triton and in torch."""
    _, clean, corrupted = pairs()
    clean, corrupted = (to_gray(images[::4].cuda()) for images in (clean, corrupted))
    with without_kernels():
        expected = {name: work().clone() for name, work in parts_of(clean, corrupted).items()}
    # the levels of torch, so that each kernel fails on its own
    with mock.patch.object(warping, "has_triton", lambda _: False):
        parts = attempt("the inputs of all parts", lambda: parts_of(clean, corrupted))
    for name, work in (parts or {}).items():
        computed = attempt(name, work)
        # copies have no spectra to compare with; the scores that follow from them have
        if computed is not None and computed.shape == expected[name].shape:
            gap = (computed.double() - expected[name].double()).abs().max().item()
            scale = expected[name].double().abs().max().item()
            print(f"{name}: differs by {gap:.1e} of {scale:.3g}")


def time_parts(clean, corrupted):
    """Print the time of each part for a batch."""
    parts = attempt("the parts of a batch", lambda: parts_of(clean, corrupted))
    for name, work in (parts or {}).items():
        duration = attempt(name, lambda work=work: seconds(work)[0])
        if duration is not None:
            print(f"{name}: {1e3 * duration:.3f} ms")


def check_hypotheses(clean, corrupted):
    """Print how the scores of float16 differ from those of float32, and how many choices differ."""
    gray, image = estimate.centered(clean), estimate.levels_of(estimate.centered(corrupted))[0]
    with without_kernels():
        exact = search._best_shifts(search.describe_search(gray), image)[0]
    scores = search._best_shifts(search.describe_search(gray), image)[0]
    print(f"scores differ by {(scores - exact).abs().max():.1e} of {exact.max():.3g}")
    count = estimate.HYPOTHESES[0]
    one, two = (values.topk(count, dim=1).indices for values in (exact, scores))
    is_same = (one[:, :, None] == two[:, None, :]).any(dim=2)
    print(f"{is_same.sum()} of {is_same.numel()} hypotheses are the same")


# ---- values


def check_maps():
    """Print how many maps equal those of torch's own operations on the same GPU."""
    names, clean, corrupted = pairs()
    clean, corrupted = to_gray(clean.cuda()), to_gray(corrupted.cuda())
    with without_kernels():
        expected = register(describe_copies(clean), corrupted)
    computed = register(describe_copies(clean), corrupted)
    gaps = (computed - expected).abs().amax(dim=(1, 2))
    for name in dict.fromkeys(names):
        rows = [index for index, other in enumerate(names) if other == name]
        print(f"{name}: maps of Triton and torch differ by {gaps[rows].max():.1e}")
    n_equal, n_close = (gaps == 0).sum(), (gaps <= 0.01).sum()
    print(f"{n_equal} of {len(gaps)} maps are equal, {n_close} within 0.01")
    places = torch.arange(0, len(clean), 3)
    alone = [register(describe_copies(clean[k][None]), corrupted[k][None]) for k in places]
    print(f"maps alone and in a batch are equal: {torch.equal(torch.cat(alone), computed[places])}")


def check_values():
    names, clean, corrupted = pairs()
    on_cpu = HUMAN_RULER.compare(HUMAN_RULER.describe(clean), corrupted)
    clean, corrupted = clean.cuda(), corrupted.cuda()
    description = HUMAN_RULER.describe(clean)
    on_gpu = HUMAN_RULER.compare(description, corrupted)
    gaps = (on_gpu.cpu() - on_cpu).abs()
    for name in dict.fromkeys(names):
        rows = [index for index, other in enumerate(names) if other == name]
        print(f"{name}: Δv {on_cpu[rows].mean():.4f}, CPU and GPU differ by {gaps[rows].max():.1e}")
    print(f"{(gaps <= WANTED_GAP).sum()} of {len(gaps)} within {WANTED_GAP}")
    assert gaps.max() <= LARGEST_GAP
    places = range(0, len(clean), 5)
    alone = torch.cat(
        [
            HUMAN_RULER.compare(HUMAN_RULER.describe(clean[k : k + 1]), corrupted[k : k + 1])
            for k in places
        ]
    )
    apart = (alone - on_gpu[list(places)]).abs().max().item()
    print(f"alone and in the batch: {apart:.1e}")
    assert apart <= LARGEST_GAP
    reverse = torch.arange(len(clean) - 1, -1, -1)
    backwards = HUMAN_RULER.compare(description.select(reverse.cuda()), corrupted[reverse.cuda()])
    assert (backwards.flip(0) - on_gpu).abs().max() <= LARGEST_GAP


# ---- time


def seconds(*works):
    """Return the median time of each work, in turns, because other programs share the machine."""
    durations = [[] for _ in works]
    for round_ in range(ROUNDS + 1):
        for work, taken in zip(works, durations, strict=True):
            torch.cuda.synchronize()
            start = time.perf_counter()
            work()
            torch.cuda.synchronize()
            # the first round compiles
            if round_:
                taken.append(time.perf_counter() - start)
    return [statistics.median(taken) for taken in durations]


def time_of(before, after):
    """Return the seconds of each part for one batch of gray images on the GPU."""
    described, copies = VCR_RULER.describe_gray(before), describe_copies(before)
    works = {
        "VIF, clean side reused": lambda: VCR_RULER.fidelity(described, after),
        "VIF": lambda: VCR_RULER.fidelity(VCR_RULER.describe_gray(before), after),
        "registration, clean side reused": lambda: register(copies, after),
        "registration": lambda: register(describe_copies(before), after),
    }
    return dict(zip(works, seconds(*works.values()), strict=True))


def show_kernels(title, work):
    """Print how long the GPU was busy, the number of launches, and the longest kernels."""
    with profile(activities=[ProfilerActivity.CUDA]) as profiled:
        work()
        torch.cuda.synchronize()
    events = [event for event in profiled.key_averages() if event.self_device_time_total > 0]
    events.sort(key=lambda event: -event.self_device_time_total)
    total = sum(event.self_device_time_total for event in events) / 1e3
    launches = sum(event.count for event in events)
    print(f"{title}: {launches} launches, kernels take {total:.2f} ms")
    for event in events[:KERNELS_SHOWN]:
        duration = event.self_device_time_total / 1e3
        print(f"    {duration:.3f} ms in {event.count} launches: {event.key[:90]}")


def check_time():
    names, clean, corrupted = pairs()
    n_moved = sum(name not in CORRUPTIONS for name in names)
    for title, rows in (
        ("unmoved", range(n_moved, len(names))),
        ("moved", range(n_moved)),
        ("half of each", range(n_moved - (len(names) - n_moved), len(names))),
    ):
        index = torch.tensor([rows[place % len(rows)] for place in range(BATCH)])
        before, after = to_gray(clean[index].cuda()), to_gray(corrupted[index].cuda())
        times = attempt(title, lambda before=before, after=after: time_of(before, after))
        if times is None:
            continue
        for name, duration in times.items():
            milliseconds = f"{1e3 * duration:.2f} ms"
            print(f"{title}: {name}: {milliseconds}, {BATCH / duration:,.0f} images/s")
        ratio = times["registration"] / times["VIF"]
        print(f"{title}: registration takes {ratio:.2f} times as long as VIF")
        if title == "moved":
            attempt("times of parts", lambda before=before, after=after: time_parts(before, after))
            attempt("hypotheses", lambda a=before[:64], b=after[:64]: check_hypotheses(a, b))
        attempt(
            f"kernels of {title}",
            lambda title=title, before=before, after=after: show_kernels(
                title, lambda: register(describe_copies(before), after)
            ),
        )
        yield title, ratio


if __name__ == "__main__":
    print(torch.cuda.get_device_name(), torch.__version__)
    began = time.perf_counter()
    for check in (check_parts, check_maps, check_values):
        attempt(check.__name__, check)
        print(f"{check.__name__} ended after {time.perf_counter() - began:.0f} s")
    slow = [(title, ratio) for title, ratio in check_time() if ratio > 1]
    print(f"all ended after {time.perf_counter() - began:.0f} s")
    assert not failures, f"these failed: {failures}"
    assert not slow, f"registration takes longer than VIF: {slow}"
