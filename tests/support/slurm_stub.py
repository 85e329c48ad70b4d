"""A stand-in for Slurm's sbatch and srun, which runs every task of an array job at once.

`sbatch` prints a job's number and runs its tasks one after the other, with the variables that Slurm
sets; a job that depends on a failed one is not run.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

SBATCH = f'#!/bin/sh\nexec {sys.executable} {Path(__file__).resolve()} "$@"\n'
SRUN = '#!/bin/sh\nexec "$@"\n'


def install(folder: Path) -> Path:
    """Write both commands into a folder, and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (("sbatch", SBATCH), ("srun", SRUN)):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return folder


def sbatch(words: list[str]) -> int:
    """Run a job as `sbatch` would; a log in the working folder lists all jobs and tasks."""
    log = Path("slurm.log")
    number = 1 + (log.read_text().count("job ") if log.exists() else 0)
    options = dict(re.findall(r"--([a-z]+)(?:=(\S*))?", " ".join(words)))
    lines = [f"job {number} {' '.join(sorted(options))}"]
    after = re.fullmatch(r"afterok:(\d+)", options.get("dependency", "afterok:0"))
    assert after is not None, "the dependency must be afterok:NUMBER"
    is_blocked = log.exists() and f"failed {after[1]}" in log.read_text().splitlines()
    if not is_blocked:
        for variables in _tasks(options.get("array", "")):
            command = ["sh", "-c", words[-1]] if "wrap" in options else ["bash", words[-1]]
            status = subprocess.run(
                command, env={**os.environ, **variables}, stdout=sys.stderr, check=False
            ).returncode
            lines.append(f"task {variables.get('SLURM_ARRAY_TASK_ID', '-')} status {status}")
            if status:
                lines.append(f"failed {number}")
    with log.open("a") as file:
        file.write("\n".join(lines) + "\n")
    print(f"{number};cluster" if "parsable" in options else f"Submitted batch job {number}")
    return 0


def _tasks(array: str) -> list[dict[str, str]]:
    """Return the variables of each task; a job without an array has one task without variables."""
    if not array:
        return [{}]
    numbers = [int(number) for number in array.split("-")]
    first, last = numbers[0], numbers[-1]
    return [
        {
            "SLURM_ARRAY_TASK_ID": str(task),
            "SLURM_ARRAY_TASK_MIN": str(first),
            "SLURM_ARRAY_TASK_MAX": str(last),
            "SLURM_ARRAY_TASK_COUNT": str(last - first + 1),
        }
        for task in range(first, last + 1)
    ]


if __name__ == "__main__":
    sys.exit(sbatch(sys.argv[1:]))
