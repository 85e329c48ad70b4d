"""Time, energy and emissions of a run in words, with the sources of the numbers."""

from eyechart.core.cost import NVML, RAPL, STATED, EnergyUse
from eyechart.core.progress import duration_text
from eyechart.results.schema import RunInfo

N_STAGES = 3
"""Number of stages that the line on the terminal names."""

SOURCES = {NVML: "GPU, measured (NVML)", RAPL: "processor, measured (RAPL)", STATED: "stated watts"}


def time_text(run: RunInfo, n_stages: int | None = None) -> str:
    """Return the run time, with its longest stages in parentheses; all stages by default.

    Example:
        >>> run = RunInfo(versions={}, git=None, device="cpu", command="", made="", images="",
        ...               seconds={"self-test": 1.25, "predictions": 300.0})
        >>> time_text(run)
        '5 min 1 s (predictions 5 min 0 s, self-test 1.2 s)'
    """
    if not run.seconds:
        return "not recorded"
    longest = sorted(run.seconds, key=lambda stage: -run.seconds[stage])[:n_stages]
    stages = ", ".join(f"{stage} {_duration(run.seconds[stage])}" for stage in longest)
    sessions = f" in {run.n_sessions} sessions" if run.n_sessions > 1 else ""
    return f"{_duration(sum(run.seconds.values()))}{sessions} ({stages})"


def energy_text(run: RunInfo) -> str:
    """Return energy and emissions with their sources, and the parts whose energy is unknown.

    Example:
        >>> from eyechart.core.cost import Measured, energy_use
        >>> run = RunInfo(versions={}, git=None, device="cpu", command="", made="", images="",
        ...               energy=energy_use({"stated": Measured(joules=9e5, seconds=3600)}, 25))
        >>> energy_text(run)
        '0.25 kWh (stated watts), 6.25 g CO2e at 25 g/kWh (stated)'
    """
    unknown = f"not measured: {', '.join(run.unmeasured)}" if run.unmeasured else ""
    if run.energy is None:
        return unknown or "not measured"
    source = f" ({run.energy.carbon_source})"
    return _energy(run.energy) + source + (f"; {unknown}" if unknown else "")


def cost_line(run: RunInfo) -> str:
    """Return run time, energy and emissions in one line for the terminal."""
    energy = "" if run.energy is None else f"; {_energy(run.energy)}"
    return f"Run time: {time_text(run, N_STAGES)}{energy}."


def _energy(energy: EnergyUse) -> str:
    parts = [
        SOURCES[name] + ("" if len(energy.sources) == 1 else f" {part.kwh:.3g}")
        for name, part in energy.sources.items()
    ]
    return (
        f"{energy.kwh:.3g} kWh ({'; '.join(parts)}), {energy.co2e_g:.3g} g CO2e at"
        f" {energy.carbon_intensity:g} g/kWh"
    )


def _duration(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 9.95 else duration_text(seconds)
