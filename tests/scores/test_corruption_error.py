"""Corruption errors: printed tables, and what is refused."""

from functools import cache

import numpy as np
import pytest
import torch

import eyechart as ec
import published_scores as published
from eyechart.images.published_source import SEVERITIES
from eyechart.results.published_results import FOLDER
from eyechart.results.severity_table import read_severity_errors
from eyechart.scores.baseline_tables import find_baseline

ALEXNET = find_baseline("alexnet")
NOC_ALEXNET = find_baseline("noc-alexnet")
NETWORKS = [name for name in published.CE if name != "AlexNet"]
ROUNDED = 0.55
"""How far the mean of rounded entries may be from a mean printed with one digit (all ±0.5)."""


def errors_of(row, names=published.CORRUPTIONS, table=ALEXNET):
    """Errors that have these plain corruption errors, in percent."""
    return {name: ce / 100 * table.errors[name] for name, ce in zip(names, row, strict=True)}


def errors_of_relative(row, clean, names, table):
    """Errors that have these relative corruption errors, in percent."""
    return {
        name: clean + ce / 100 * (table.errors[name] - table.clean)
        for name, ce in zip(names, row, strict=True)
    }


def errors_from_accuracy(name):
    clean, *accuracies = published.ACCURACY[name]
    shares = [1 - each / 100 for each in accuracies]
    return dict(zip(published.CORRUPTIONS, shares, strict=True)), 1 - clean / 100


@pytest.mark.parametrize("network", published.CE)
def test_printed_means_of_plain_and_relative_errors_are_reproduced(network):
    clean, mean, *row = published.CE[network]
    found = ec.mean_corruption_error(errors_of(row), "alexnet")
    assert 100 * found.value == pytest.approx(mean, abs=ROUNDED)
    _, mean, *row = published.RELATIVE_CE[network]
    errors = errors_of_relative(row, clean / 100, published.CORRUPTIONS, ALEXNET)
    found = ec.mean_corruption_error(errors, "alexnet", clean=clean / 100, relative=True)
    assert 100 * found.value == pytest.approx(mean, abs=ROUNDED)


@pytest.mark.parametrize("network", NETWORKS)
def test_all_relative_errors_follow_from_the_plain_ones_within_rounding(network):
    clean, _, *plain = published.CE[network]
    relative = published.RELATIVE_CE[network][2:]
    found = ec.corruption_error(errors_of(plain), "alexnet", clean=clean / 100, relative=True)
    for name, printed in zip(published.CORRUPTIONS, relative, strict=True):
        base = ALEXNET.errors[name]
        # plain entries are rounded to 1 %, clean errors to 0.1 %, and the result to 1 % again
        bound = (0.5 * base + 0.05 + 0.05) / (base - ALEXNET.clean) + 0.5
        assert abs(100 * found.values[name] - printed) <= bound


def test_the_printed_formula_read_literally_is_not_what_was_computed():
    # Σ E(s) − E_clean, the clean error taken off once instead of from each severity
    error, clean = 0.80 * ALEXNET.errors["gaussian_noise"], 0.239
    literal = (5 * error - clean) / (5 * ALEXNET.errors["gaussian_noise"] - ALEXNET.clean)
    assert literal == pytest.approx(0.83, abs=0.005)
    errors = {"gaussian_noise": error}
    found = ec.corruption_error(errors, "alexnet", clean=clean, relative=True)
    assert found.values["gaussian_noise"] == pytest.approx(1.04, abs=0.01)


@pytest.mark.parametrize("model", published.PRINTED_MCE)
def test_mce_follows_from_accuracies(model):
    errors, clean = errors_from_accuracy(model)
    found = ec.mean_corruption_error(errors, "alexnet")
    assert 100 * found.value == pytest.approx(published.PRINTED_MCE[model], abs=0.006)
    if model in published.PRINTED_RELATIVE_MCE:
        found = ec.mean_corruption_error(errors, "alexnet", clean=clean, relative=True)
        printed = published.PRINTED_RELATIVE_MCE[model]
        assert 100 * found.value == pytest.approx(printed, abs=0.06)


def test_the_mean_of_rounded_errors_is_another_number():
    mean = np.mean(published.CE["ResNet-50"][2:])
    assert mean == pytest.approx(76.87, abs=0.005)
    found = ec.mean_corruption_error(errors_from_accuracy("ResNet-50")[0], "alexnet")
    assert 100 * found.value == pytest.approx(76.70, abs=0.005)


def test_the_table_is_the_mean_over_severities_and_both_give_the_same():
    for name, by_severity in published.ALEXNET_BY_SEVERITY.items():
        assert np.mean(by_severity) == pytest.approx(ALEXNET.errors[name], abs=5e-7)
    found = ec.mean_corruption_error(published.ALEXNET_BY_SEVERITY, "alexnet")
    assert found.value == pytest.approx(1, abs=1e-6)
    by_number = {
        name: dict(zip(SEVERITIES, row, strict=True))
        for name, row in published.ALEXNET_BY_SEVERITY.items()
    }
    assert ec.mean_corruption_error(by_number, "alexnet").value == pytest.approx(found.value)
    arrays = {name: np.array(row) for name, row in published.ALEXNET_BY_SEVERITY.items()}
    assert ec.mean_corruption_error(arrays, "alexnet").value == pytest.approx(found.value)


def noc_rows():
    for name in ("NOC_TABLE_4", "NOC_TABLE_6", "NOC_TABLE_8"):
        for model, row in getattr(published, name).items():
            yield name, model, row, published.NOC, NOC_ALEXNET
    for name in ("NOC_TABLE_5", "NOC_TABLE_7"):
        for model, row in getattr(published, name).items():
            yield name, model, row, published.CORRUPTIONS, ALEXNET
    for model, row in published.NOC_TABLE_1.items():
        short = len(row) == 9
        names, table = (published.NOC, NOC_ALEXNET) if short else (published.CORRUPTIONS, ALEXNET)
        yield "NOC_TABLE_1", model, row, names, table


DIFFERENT = {
    ("NOC_TABLE_7", "Standard"): 104.8,
    ("NOC_TABLE_6", "DenseNet-201"): 66.62,
    ("NOC_TABLE_1", "m_INOC"): 79.93,
}
"""Means of the ImageNet-NOC paper that its own entries do not have, and what they have."""


@pytest.mark.parametrize(("where", "model", "row", "names", "table"), list(noc_rows()))
def test_means_of_the_noc_paper_are_reproduced_except_three(where, model, row, names, table):
    *entries, printed = row
    clean = 0.24  # any clean error: the entries are relative
    errors = errors_of_relative(entries, clean, names, table)
    found = ec.mean_corruption_error(errors, table, clean=clean, relative=True)
    apart = abs(100 * found.value - printed)
    if (where, model) in DIFFERENT:
        assert apart > ROUNDED
        assert 100 * found.value == pytest.approx(DIFFERENT[where, model], abs=0.006)
    else:
        assert apart <= ROUNDED


def test_the_noc_paper_calls_relative_errors_ce():
    for network, row in published.NOC_TABLE_5.items():
        if network in published.RELATIVE_CE:
            assert row[:-1] == published.RELATIVE_CE[network][2:]
    # and next to them plain ones: the mCE of the same ResNet-50 is 77 and not 105
    plain = ec.mean_corruption_error(errors_from_accuracy("ResNet-50")[0], "alexnet")
    assert round(100 * plain.value) == published.NOC_TABLE_4_PLAIN["Standard"]
    assert published.NOC_TABLE_5["ResNet-50"][-1] == 105


def test_spreads_of_the_noc_paper_are_population_deviations():
    for scores, deviation, width in (
        (published.NOC_TABLE_2A, 12.1, 40),
        (published.NOC_TABLE_2B, 3.7, 11),
    ):
        assert round(np.std(scores), 1) == deviation
        assert round(np.std(scores, ddof=1), 1) != deviation
        assert max(scores) - min(scores) == width
    assert [row[-1] for row in published.NOC_TABLE_7.values()][1:] == published.NOC_TABLE_2A
    assert [row[-1] for row in published.NOC_TABLE_8.values()][1:] == published.NOC_TABLE_2B


def test_tables_cover_their_suites():
    assert list(ALEXNET.corruptions) == published.CORRUPTIONS
    extras = ec.list_corruptions("imagenet-c-extra")
    assert len(extras) == 5
    assert set(ALEXNET.errors) == {*published.CORRUPTIONS, *extras}
    assert list(NOC_ALEXNET.corruptions) == published.NOC
    assert set(NOC_ALEXNET.errors) == set(ec.list_corruptions("noc-candidates"))
    assert NOC_ALEXNET.relative
    assert not ALEXNET.relative


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("robustbench-alexnet", "robustbench_imagenet_c.csv"),
        ("robustbench-alexnet-3dcc", "robustbench_imagenet_3dcc.csv"),
    ],
)
def test_the_table_of_robustbench_is_the_mean_of_its_published_accuracies(name, file):
    published_errors = read_severity_errors(FOLDER / file)["AlexNet"].errors
    means = {key: sum(errors.values()) / 5 for key, errors in published_errors.items()}
    assert dict(find_baseline(name).errors) == pytest.approx(means, abs=1e-12)
    assert find_baseline(name).clean == pytest.approx(1 - 0.5624)


def test_the_baseline_itself_scores_one():
    for table in (ALEXNET, NOC_ALEXNET):
        errors = {name: table.errors[name] for name in table.corruptions}
        for relative in (False, True):
            found = ec.mean_corruption_error(errors, table.name, table.clean, relative)
            assert found.value == pytest.approx(1)
            assert found.title.endswith(f"(baseline {table.name})")
            assert found.relative == relative


def test_a_model_or_humans_can_be_the_baseline():
    humans = ec.measured_baseline("humans", {"fog": 0.2, "frost": 0.4}, clean=0.1)
    found = ec.mean_corruption_error({"fog": 0.3, "frost": 0.4}, humans, clean=0.1, relative=True)
    assert found.by_corruption.values == pytest.approx({"fog": 2, "frost": 1})
    assert found.value == pytest.approx(1.5)
    assert found.baseline.name == "humans"
    found = ec.mean_corruption_error({"fog": [0.1] * 5}, {"fog": [0.1, 0.2, 0.2, 0.2, 0.3]})
    assert found.value == pytest.approx(0.5)


def test_extras_have_corruption_errors_and_no_silent_place_in_the_mean():
    errors = {name: ALEXNET.errors[name] / 2 for name in ALEXNET.errors}
    assert ec.corruption_error(errors, "alexnet").values["spatter"] == pytest.approx(0.5)
    with pytest.raises(ec.UsageError, match=r"speckle_noise, .* not part of the mean by default"):
        ec.mean_corruption_error(errors, "alexnet")
    with pytest.raises(ec.UsageError, match="not part of the mean by default"):
        ec.mean_corruption_error({"fog": 0.4, "spatter": 0.3}, {"fog": 0.8, "spatter": 0.6})
    named = ec.mean_corruption_error(errors, "alexnet", corruptions=list(errors))
    assert named.value == pytest.approx(0.5)
    assert len(named.by_corruption.values) == 20
    fifteen = ec.mean_corruption_error(errors, "alexnet", corruptions=published.CORRUPTIONS)
    assert list(fifteen.by_corruption.values) == published.CORRUPTIONS


ONE = {"fog": 0.4}


@pytest.mark.parametrize(
    ("words", "call"),
    [
        ("fog' must be between 0 and 1, got 76.7: divide percent", lambda: share({"fog": 76.7})),
        ("must be between 0 and 1, got nan", lambda: share({"fog": float("nan")})),
        ("must be between 0 and 1, got -0.1", lambda: share({"fog": -0.1})),
        ("must be a number, got 'x'", lambda: share({"fog": "x"})),
        ("must be one number or five", lambda: share({"fog": [0.1, 0.2]})),
        ("given for severities 1…5, got", lambda: share({"fog": {1: 0.1, 6: 0.2}})),
        ("must map names of corruptions", lambda: share({})),
        ("must map names of corruptions", lambda: share([0.1])),
        ("must map names of corruptions", lambda: ec.mean_corruption_error({}, "alexnet")),
        ("Did you mean 'fog'", lambda: share({"fogg": 0.1})),
        ("Did you mean 'alexnet'", lambda: ec.corruption_error(ONE, "alexnett")),
        (
            "baseline 'robustbench-alexnet': 'noc/hue'",
            lambda: ec.corruption_error({"noc/hue": 0.4}, "robustbench-alexnet"),
        ),
        ("15 corruptions; missing: gauss", lambda: ec.mean_corruption_error(ONE, "alexnet")),
        ("need the model's error on clean", lambda: share(ONE, relative=True)),
        ("clean must be between 0 and 1", lambda: share(ONE, clean=24.0, relative=True)),
        (
            "need baseline 'given errors' with its error on clean",
            lambda: ec.corruption_error(ONE, {"fog": 0.5}, clean=0.2, relative=True),
        ),
        ("must be more than 0 to divide by", lambda: ec.corruption_error(ONE, {"fog": 0.0})),
        (
            "must be more than the 0.5 of clean images",
            lambda: ec.corruption_error(
                ONE, ec.measured_baseline("b", ONE, clean=0.5), clean=0.2, relative=True
            ),
        ),
    ],
)
def test_what_cannot_be_used_is_rejected_in_one_sentence(words, call):
    with pytest.raises(ec.UsageError, match=words) as rejected:
        call()
    assert "\n" not in str(rejected.value)


def share(errors, **options):
    return ec.corruption_error(errors, "alexnet", **options)


def test_results_of_different_baselines_or_forms_cannot_stand_together():
    errors, clean = errors_from_accuracy("ResNet-50")
    plain = ec.mean_corruption_error(errors, "alexnet")
    again = ec.mean_corruption_error(errors_from_accuracy("ANT")[0], "alexnet")
    ec.check_same_baseline([plain, again])
    ec.check_same_baseline([])
    relative = ec.mean_corruption_error(errors, "alexnet", clean=clean, relative=True)
    with pytest.raises(ec.UsageError, match="all be plain or all be relative"):
        ec.check_same_baseline([plain, relative])
    theirs = ec.mean_corruption_error(errors, "robustbench-alexnet")
    with pytest.raises(
        ec.UsageError, match=r"the same baseline .* 'alexnet' and 'robustbench-alexnet'"
    ):
        ec.check_same_baseline([plain, theirs])
    other = {name: ALEXNET.errors[name] * 76.70 / 76.38 for name in ALEXNET.corruptions}
    same_name = ec.mean_corruption_error(errors, ec.measured_baseline("alexnet", other))
    with pytest.raises(ec.UsageError, match="Two baselines named 'alexnet'"):
        ec.check_same_baseline([plain, same_name])
    fewer = ec.mean_corruption_error({"fog": 0.4}, "alexnet", corruptions=["fog"])
    with pytest.raises(ec.UsageError, match="same corruptions"):
        ec.check_same_baseline([plain.by_corruption, fewer])


def simulated(images, seed):
    """Right and wrong of a model and a baseline, (corruption, picture), hard pictures shared."""
    numbers = np.random.default_rng(seed)
    hardness = numbers.random(images)
    names = ("clean", "fog", "frost", "snow")
    means = {"clean": (0.2, 0.4), "fog": (0.5, 0.7), "frost": (0.4, 0.8), "snow": (0.6, 0.75)}
    wrong = {name: [] for name in names}
    for name in names:
        for rate in means[name]:
            mixed = np.where(numbers.random(images) < 0.6, hardness, numbers.random(images))
            wrong[name].append((mixed < rate).astype(float))
    truth = {
        False: np.mean([means[name][0] / means[name][1] for name in names[1:]]),
        True: np.mean([(means[name][0] - 0.2) / (means[name][1] - 0.4) for name in names[1:]]),
    }
    return {name: np.array(pair) for name, pair in wrong.items()}, truth


@cache
def weights_of(count, n_bootstrap, seed):
    numbers = np.random.default_rng(seed)
    return numbers.multinomial(count, np.full(count, 1 / count), n_bootstrap).astype(float)


def drawn_errors(wrong, n_bootstrap, seed):
    count = wrong["fog"].shape[1]
    weights = weights_of(count, n_bootstrap, seed)
    means = {name: (weights @ pair.T / count).T for name, pair in wrong.items()}
    model = {name: means[name][0] for name in means if name != "clean"}
    base = {name: means[name][1] for name in means if name != "clean"}
    return model, base, means["clean"]


def test_each_replicate_is_the_score_of_its_errors():
    wrong, _ = simulated(300, 0)
    model, base, (clean, base_clean) = drawn_errors(wrong, 20, 1)
    table = ec.measured_baseline("other", {name: row[1].mean() for name, row in wrong.items()})
    names = list(model)
    for relative in (False, True):
        found = ec.mean_corruption_error_replicates(
            model,
            table,
            clean,
            relative,
            corruptions=names,
            baseline_errors=base,
            baseline_clean=base_clean,
        )
        for place in range(20):
            own = ec.measured_baseline(
                "other", {name: base[name][place] for name in names}, base_clean[place]
            )
            errors = {name: model[name][place] for name in names}
            one = ec.mean_corruption_error(errors, own, clean[place], relative)
            assert found.mean[place] == pytest.approx(one.value)
            for name in names:
                assert found.values[name][place] == pytest.approx(one.by_corruption.values[name])
    constant = ec.mean_corruption_error_replicates(model, table, corruptions=names)
    fog = table.errors["fog"]
    np.testing.assert_allclose(constant.values["fog"], model["fog"] / fog)
    low, high = constant.intervals()["fog"]
    assert low < model["fog"].mean() / fog < high


@pytest.mark.parametrize("relative", [False, True])
def test_intervals_hold_the_truth_as_often_as_they_say(relative):
    held = 0
    for seed in range(500):
        wrong, truth = simulated(300, seed)
        model, base, (clean, base_clean) = drawn_errors(wrong, 400, 10_000 + seed % 20)
        table = ec.measured_baseline("other", {name: 0.5 for name in model})
        found = ec.mean_corruption_error_replicates(
            model, table, clean, relative, baseline_errors=base, baseline_clean=base_clean
        )
        low, high = found.interval()
        held += low <= truth[relative] <= high
    assert 0.90 <= held / 500 <= 0.98


def test_a_baseline_resampled_with_the_model_gives_narrower_intervals_than_one_apart():
    wrong, _ = simulated(400, 3)
    model, base, _ = drawn_errors(wrong, 2000, 4)
    _, apart, _ = drawn_errors(wrong, 2000, 5)
    table = ec.measured_baseline("other", {name: 0.5 for name in model})
    widths = []
    for own in (base, apart):
        found = ec.mean_corruption_error_replicates(model, table, baseline_errors=own)
        widths.append(np.diff(found.interval())[0])
    assert widths[0] < 0.9 * widths[1]


def test_an_interval_is_undetermined_where_that_of_its_denominator_holds_zero():
    """Beyond 10 replicates of 100 without a denominator a 90 % interval has ends, no 95 % one."""
    table = ec.measured_baseline("other", {"fog": 0.5}, clean=0.4)
    model = {"fog": np.linspace(0.5, 0.6, 100)}
    for undetermined, levels in ((4, [0.9]), (2, [0.9, 0.95]), (6, [])):
        # 0.1 + 0.2 is more than 0.3 by rounding alone
        base = np.where(np.arange(100) < undetermined, 0.1 + 0.2, 0.4)
        found = ec.mean_corruption_error_replicates(
            model,
            table,
            np.full(100, 0.4),
            True,
            baseline_errors={"fog": base},
            baseline_clean=np.full(100, 0.3),
        )
        for level in (0.9, 0.95):
            for low, high in (found.interval(level), found.intervals(level)["fog"]):
                if level in levels:
                    assert 1 <= low < high <= 2
                else:
                    assert np.isnan([low, high]).all()


def test_a_denominator_of_rounding_noise_is_none():
    table = ec.measured_baseline("other", {"fog": 0.1 + 0.2}, clean=0.3)
    with pytest.raises(ec.UsageError, match=r"more than the 0.3 of clean"):
        ec.corruption_error({"fog": 0.5}, table, clean=0.1, relative=True)


@pytest.mark.parametrize("images", [10, 20, 60])
def test_relative_errors_of_few_images_have_bounded_intervals_or_none(images):
    """The truth is in 95 % of them, if an undetermined one leaves it open; all ends are ratios.

    A replicate's denominator is a whole number of images, so that no ratio exceeds their number.
    """
    undetermined, held = 0, 0
    for seed in range(150):
        wrong, truth = simulated(images, seed)
        model, base, (clean, base_clean) = drawn_errors(wrong, 300, 10_000 + seed % 20)
        table = ec.measured_baseline("other", {name: 0.5 for name in model})
        found = ec.mean_corruption_error_replicates(
            model, table, clean, True, baseline_errors=base, baseline_clean=base_clean
        )
        for low, high in (found.interval(), *found.intervals().values()):
            assert np.isnan(low) == np.isnan(high)
            assert np.isnan(low) or -images <= low <= high <= images
        low, high = found.interval()
        undetermined += np.isnan(low)
        held += np.isnan(low) or low <= truth[True] <= high
    assert held / 150 >= 0.90
    assert 0 < undetermined < 150


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ("same number of replicates", {"baseline_errors": {"fog": np.full(3, 0.5)}}),
        ("same number of replicates", {"relative": True, "clean": np.full(3, 0.2)}),
        ("'fog' is missing", {"baseline_errors": {"frost": np.full(4, 0.5)}}),
        ("1-D array of values", {"baseline_errors": {"fog": np.full(4, 50.0)}}),
        ("the model's error on clean", {"relative": True}),
        (
            "the baseline's resampled error on clean",
            {
                "relative": True,
                "clean": np.full(4, 0.2),
                "baseline_errors": {"fog": np.full(4, 0.5)},
            },
        ),
    ],
)
def test_replicates_that_do_not_belong_together_are_rejected(words, options):
    table = ec.measured_baseline("other", {"fog": 0.5}, clean=0.4)
    with pytest.raises(ec.UsageError, match=words):
        ec.mean_corruption_error_replicates({"fog": np.full(4, 0.5)}, table, **options)


@pytest.mark.parametrize("one", [np.array(0.5), np.float32(0.5), torch.tensor(0.5)])
def test_one_number_of_numpy_or_torch_is_an_error_share(one):
    found = ec.corruption_error({"fog": one}, "alexnet").values["fog"]
    assert found == pytest.approx(ec.corruption_error({"fog": 0.5}, "alexnet").values["fog"])
