"""Time and energy in words: every number with its source, and what is missing."""

from eyechart.core.cost import Measured, energy_use
from eyechart.reports.series.run_sentences import cost_line, energy_text, time_text
from eyechart.results.schema import RunInfo

PROCESSOR = "processor (no energy counters)"


def info(**more):
    return RunInfo(
        versions={}, git=None, device="cuda:0", command="", made="", images="photos",
        seconds={"loading": 2.0, "self-test": 1.5, "predictions": 230.0, "scoring": 21.0}, **more,
    )  # fmt: skip


def used(carbon_intensity, **joules):
    by_source = {name: Measured(joules=each, seconds=10) for name, each in joules.items()}
    return energy_use(by_source, carbon_intensity)


def test_stages_are_named_from_the_longest_on():
    stages = "(predictions 3 min 50 s, scoring 21 s, loading 2.0 s, self-test 1.5 s)"
    assert time_text(info()) == f"4 min 14 s {stages}"
    assert time_text(info(), 1) == "4 min 14 s (predictions 3 min 50 s)"
    assert time_text(info(n_sessions=3), 1).startswith("4 min 14 s in 3 sessions (")


def test_measured_and_stated_energy_are_told_apart():
    run = info(energy=used(458, nvml=1.8e6, rapl=0.36e6, stated=1.44e6))
    assert energy_text(run) == (
        "1 kWh (GPU, measured (NVML) 0.5; processor, measured (RAPL) 0.1; stated watts 0.4),"
        " 458 g CO2e at 458 g/kWh (world average of 2025, Ember, Global Electricity Review 2026)"
    )


def test_what_is_not_measured_is_said():
    run = info(energy=used(25, nvml=3.6e6), unmeasured=(PROCESSOR,))
    assert energy_text(run).startswith("1 kWh (GPU, measured (NVML)), 25 g CO2e at 25 g/kWh")
    assert energy_text(run).endswith(f"not measured: {PROCESSOR}")


def test_unknown_energy_is_no_number():
    run = info(unmeasured=(PROCESSOR,))
    assert energy_text(run) == f"not measured: {PROCESSOR}"
    assert "kWh" not in cost_line(run)


def test_the_terminal_has_one_line():
    line = cost_line(info(energy=used(25, stated=3.6e6)))
    assert line == (
        "Run time: 4 min 14 s (predictions 3 min 50 s, scoring 21 s, loading 2.0 s);"
        " 1 kWh (stated watts), 25 g CO2e at 25 g/kWh."
    )
