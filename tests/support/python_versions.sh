#!/bin/sh
# Installs a wheel with the versions of constraints.txt on every Python that pyproject.toml lists and
# this machine has, from binary packages alone, and runs it.
# tests/support/python_versions.sh WHEEL
set -eu
wheel=$(realpath "$1")
cd "$(dirname "$0")/../.."
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
for version in $(sed -n 's/.*Python :: \(3\.[0-9]*\)".*/\1/p' pyproject.toml); do
    if ! "python$version" -c '' 2>/dev/null; then
        echo "$version: not on this machine"
        continue
    fi
    "python$version" -m venv "$room/$version"
    python=$room/$version/bin/python
    "$python" -m pip install --quiet --disable-pip-version-check --only-binary :all: \
        -c constraints.txt "$wheel"
    "$python" -m pip check >/dev/null
    (cd "$room" && env -u PYTHONPATH "$python" -m eyechart list corruptions >/dev/null)
    echo "$version: installed and run"
    rm -rf "${room:?}/$version"
done
