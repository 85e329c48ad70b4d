"""`eyechart bench loop`: the whole evaluation loop next to the model in it."""

from typing import Annotated

import typer


def loop(
    n: Annotated[int, typer.Option("--n", help="Pictures per corruption.", min=1)] = 4096,
    pictures: Annotated[int, typer.Option(help="Different pictures.", min=1)] = 512,
    batch: Annotated[int | None, typer.Option(help="Pictures predicted at once.", min=1)] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
) -> None:
    """Time the loop (corrupt, measure, predict, write) against a ResNet-50 by itself."""
    from eyechart.core.devices import find_device
    from eyechart.reports.bench import machine_name
    from eyechart.reports.bench_loop import measure_loop

    where = find_device(device)
    print(machine_name(where))
    speed = measure_loop(where, n, pictures, batch)
    print(f"ResNet-50 alone: {speed.model:,.0f} pictures/s")
    for name, rate in speed.loop.items():
        print(f"  {name:26} {rate:>9,.0f}/s  {rate / speed.model:.2f} of the model's own")
    print(
        f"The loop, mean of {len(speed.loop)} corruptions: {speed.mean:,.0f} pictures/s,"
        f" {speed.ratio:.2f} of the model's own speed"
    )
