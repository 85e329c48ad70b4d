"""Print the line and branch coverage of each package from coverage's JSON report: `make coverage`.

.venv/bin/python tools/coverage_table.py build/coverage/coverage.json
"""

import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

TOTAL = "total"


def table(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each package of eyechart, for eyechart_experiment, and for all files."""
    packages: dict[str, Counter[str]] = {}
    for name, file in report["files"].items():
        inside = Path(name.rpartition("src/")[2]).parts
        # the other distribution is one line
        package = inside[0]
        if package == "eyechart":
            package = inside[1] if len(inside) > 2 else "(top)"
        for each in (package, TOTAL):
            packages.setdefault(each, Counter()).update(
                {key: value for key, value in file["summary"].items() if isinstance(value, int)}
            )
    yield f"{'package':16}{'lines':>8}{'run':>8}{'branches':>10}{'run':>8}"
    for name in sorted(packages, key=lambda name: (name == TOTAL, name)):
        counts = packages[name]
        lines, branches = counts["num_statements"], counts["num_branches"]
        run = (
            _share(counts["covered_lines"], lines),
            _share(counts["covered_branches"], branches),
        )
        yield f"{name:16}{lines:>8,}{run[0]:>8}{branches:>10,}{run[1]:>8}"


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else ""


if __name__ == "__main__":
    print("\n".join(table(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))))
