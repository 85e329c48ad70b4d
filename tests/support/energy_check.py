"""For a machine with an NVIDIA GPU: the energy of idle seconds and of matrix products.

Prints the joules that NVML's energy counter shows, next to the power that NVML reports, integrated
over the same time: both must agree within a few percent. Needs nvidia-ml-py (eyechart[energy]); run
it with `python tests/support/energy_check.py [cuda:1]`.
"""

import sys
import time

import torch

from eyechart.core.cost import Session, find_meters, nvml_meter

SECONDS = 5.0
SIZE = 8192


def power_only(nvml):
    """Return NVML without its energy counter, as on GPUs that have none."""

    class PowerOnly:
        def __getattr__(self, name):
            return getattr(nvml, name)

        def nvmlDeviceGetTotalEnergyConsumption(self, handle):
            raise nvml.NVMLError(nvml.NVML_ERROR_NOT_SUPPORTED)

    return PowerOnly()


def measure(title, device, work):
    import pynvml

    identity = f"GPU-{torch.cuda.get_device_properties(device).uuid}"
    integrated = nvml_meter(power_only(pynvml), [identity])
    with Session() as session, session.stage(title):
        session.measure(*find_meters([device]))
        start = time.monotonic()
        while time.monotonic() - start < SECONDS:
            work()
            torch.cuda.synchronize(device)
            integrated.joules()
        cost, from_power = session.cost(), integrated.joules()
    counted = cost.energy["nvml"]
    print(
        f"{title}: {cost.seconds[title]:.2f} s, {counted.joules:.0f} J by the counter"
        f" ({counted.joules / counted.seconds:.0f} W), {from_power:.0f} J from power"
    )
    for source, measured in cost.energy.items():
        if source != "nvml":
            print(f"  {source}: {measured.joules:.0f} J")
    for part in cost.unmeasured:
        print(f"  not measured: {part}")


if __name__ == "__main__":
    device = torch.device(sys.argv[1] if len(sys.argv) > 1 else "cuda:0")
    print(torch.cuda.get_device_name(device))
    problems = [part for part in find_meters([device])[1] if part.startswith("GPU")]
    if problems:
        sys.exit(problems[0])
    matrix = torch.randn(SIZE, SIZE, device=device, dtype=torch.bfloat16)
    measure("idle", device, lambda: time.sleep(0.05))
    measure("matrix products", device, lambda: matrix @ matrix)
