"""Energy: counters in the kernel's format, NVML's functions, stated watts, kWh and CO2e."""

import os
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from eyechart.core.cost import (
    WORLD_AVERAGE,
    EnergyUse,
    Measured,
    Session,
    energy_use,
    find_meters,
    nvml_meter,
    rapl_meter,
    stated_watts,
    total_cost,
)

RANGE = 262_143_328_850
"""max_energy_range_uj of many Intel processors: it overflows after 22 minutes at 200 W."""

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def zone(folder, name, title, uj):
    """Write a zone as the kernel shows it under /sys/class/powercap."""
    home = folder / name
    home.mkdir(parents=True, exist_ok=True)
    (home / "name").write_text(f"{title}\n")
    (home / "energy_uj").write_text(f"{uj}\n")
    (home / "max_energy_range_uj").write_text(f"{RANGE}\n")


@pytest.fixture
def powercap(tmp_path):
    """A laptop with two packages: which zones count, and which contain or repeat others."""
    (tmp_path / "intel-rapl").mkdir()
    (tmp_path / "intel-rapl" / "enabled").write_text("1\n")
    zone(tmp_path, "intel-rapl:0", "package-0", 5_000_000)
    zone(tmp_path, "intel-rapl:0:0", "core", 3_000_000)
    zone(tmp_path, "intel-rapl:0:1", "uncore", 1_000_000)
    zone(tmp_path, "intel-rapl:0:2", "dram", 700_000)
    zone(tmp_path, "intel-rapl:1", "package-1", RANGE - 1_000_000)
    zone(tmp_path, "intel-rapl:2", "psys", 9_000_000)
    zone(tmp_path, "intel-rapl-mmio:0", "package-0", 5_000_000)
    return tmp_path


def add(folder, name, uj):
    """Let a counter advance as the processor does, which starts again beyond its range."""
    file = folder / name / "energy_uj"
    file.write_text(f"{(int(file.read_text()) + uj) % RANGE}\n")


# RAPL


def test_packages_and_memory_are_added_and_nothing_is_counted_twice(powercap):
    meter = rapl_meter(powercap)
    assert meter.joules() == 0
    for name in powercap.glob("intel-rapl*:*"):
        add(powercap, name.name, 500_000)
    assert meter.joules() == pytest.approx(1.5)  # two packages and the memory


def test_a_counter_that_overflows_goes_on(powercap):
    meter = rapl_meter(powercap)
    total = 0
    for step in (900_000, 200_000, RANGE - 1, 3):
        add(powercap, "intel-rapl:1", step)
        total += step
        assert meter.joules() == pytest.approx(total / 1e6)


@pytest.mark.parametrize("spoil", ["empty", "psys only", "no counter", "not a number"])
def test_without_a_counter_there_is_no_meter_and_a_reason(tmp_path, spoil):
    if spoil != "empty":
        zone(tmp_path, "intel-rapl:0", "psys" if spoil == "psys only" else "package-0", 1)
    if spoil == "no counter":
        (tmp_path / "intel-rapl:0" / "energy_uj").unlink()
    if spoil == "not a number":
        (tmp_path / "intel-rapl:0" / "energy_uj").write_text("\n")
    assert find_meters([CPU], powercap=tmp_path) == ([], ["processor (no energy counters)"])


@contextmanager
def ordinary_user():
    """Let root lose its right to read every file."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_counters_for_root_only_are_said_to_be_so():
    # pytest's folders are closed to other users
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        zone(folder, "intel-rapl:0", "package-0", 1)
        (folder / "intel-rapl:0" / "energy_uj").chmod(0o400 if os.geteuid() == 0 else 0)
        with ordinary_user():
            meters, unmeasured = find_meters([CPU], powercap=folder)
    assert "root" in unmeasured[0] and not meters


# NVML, whose functions cannot run without a GPU (tests/support/energy_check.py runs them on one)


class NVMLError(Exception):
    pass


def nvml(clock, has_counter):
    """NVML of a GPU that draws 100 W and from the tenth second on 300 W."""

    def watts():
        return 100 if clock.now < 110 else 300

    def millijoules(handle):
        if not has_counter:
            raise NVMLError("Not Supported")
        seconds = clock.now - 100
        return 7_000 + int(1000 * (100 * min(seconds, 10) + 300 * max(seconds - 10, 0)))

    return SimpleNamespace(
        NVMLError=NVMLError,
        nvmlDeviceGetHandleByUUID=lambda uuid: uuid,
        nvmlDeviceGetTotalEnergyConsumption=millijoules,
        nvmlDeviceGetPowerUsage=lambda handle: 1000 * watts(),
    )


@pytest.mark.parametrize("has_counter", [True, False])
def test_energy_of_gpus_is_counted_or_integrated_from_their_power(has_counter):
    clock = Clock()
    meter = nvml_meter(nvml(clock, has_counter), ["GPU-a", "GPU-b"], clock)
    for _ in range(20):
        clock.now += 1
        joules = meter.joules()
    # the trapezoid of the step in which the power rises is half a second off
    assert joules == pytest.approx(2 * (100 * 10 + 300 * 10), abs=0 if has_counter else 200)


def test_a_gpu_without_the_package_is_said_to_be_unmeasured(powercap, monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    meters, unmeasured = find_meters([CUDA], powercap=powercap)
    assert [meter.source for meter in meters] == ["rapl"]
    (reason,) = unmeasured
    assert reason == 'GPU (run  pip install -e ".[energy]"  in a clone of eyechart first)'


def test_nvml_counts_or_says_why_not(tmp_path):
    pytest.importorskip("pynvml")
    meters, unmeasured = find_meters([CUDA], powercap=tmp_path)
    if torch.cuda.is_available():
        assert [meter.source for meter in meters] == ["nvml"]
        assert meters[0].joules() >= 0
    else:
        assert unmeasured[0].startswith("GPU (NVML: ")


def test_other_gpus_have_no_counters(powercap):
    assert "NVIDIA" in find_meters([torch.device("mps")], powercap=powercap)[1][0]


# Stated watts, kWh and CO2e


def test_stated_watts_are_those_of_everything_without_a_counter(powercap):
    meters, unmeasured = find_meters([torch.device("mps")], 50.0, powercap)
    assert [meter.source for meter in meters] == ["rapl", "stated"]
    assert unmeasured == []


def test_the_papers_example():
    """VCR paper, appendix E.2: 0.755 kWh and 18.875 g of CO2 for each corruption.

    1.5 h to generate 50,000 images at 200 W (processor) + 50 W (other components), 1 h to evaluate
    them at 170 W (GPU) + 160 W + 50 W, 25 g/kWh.
    """
    costs = []
    for stage, watts, hours in (("generation", 200 + 50, 1.5), ("evaluation", 170 + 160 + 50, 1)):
        clock = Clock()
        session = Session(clock)
        session.measure([stated_watts(watts, clock)])
        with session.stage(stage):
            clock.now += 3600 * hours
        costs.append(session.cost())
    total = total_cost(costs)
    assert dict(total.seconds) == {"generation": 5400, "evaluation": 3600}
    use = energy_use(total.energy, carbon_intensity=25)
    assert use.kwh == pytest.approx(0.755) and use.co2e_g == pytest.approx(18.875)
    assert use.carbon_source == "stated" and list(use.sources) == ["stated"]
    assert use.sources["stated"].seconds == 9000


def test_without_a_source_energy_is_unknown():
    assert energy_use({}) is None


def test_the_default_carbon_intensity_names_its_source():
    use = energy_use({"rapl": Measured(joules=3.6e6, seconds=1)})
    assert isinstance(use, EnergyUse) and use.co2e_g == pytest.approx(WORLD_AVERAGE)
    assert "Ember" in use.carbon_source
