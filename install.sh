#!/bin/sh
# install.sh PYTHON [demo]: installs both distributions of this checkout into the environment of
# PYTHON, for development, or only with what the demo needs.
# On CPython 3.11 on Linux (x86-64) every package but torch is installed by its hash; elsewhere exact
# versions are installed without hashes, and a line says so.
set -eu
cd "$(dirname "$0")"
python=$1
extra=${2:-dev}
lock=requirements.lock
[ "$extra" = dev ] || lock=requirements-$extra.lock

install() {
    "$python" -m pip install --quiet --no-compile --disable-pip-version-check "$@"
}

if "$python" -c '
import platform, sys
here = sys.implementation.name, sys.version_info[:2], sys.platform, platform.machine()
sys.exit(here != ("cpython", (3, 11), "linux", "x86_64"))'; then
    install --no-deps --require-hashes -r "$lock"
    # Whatever build of torch this machine is set up to get: its hash is not known beforehand. What
    # torch needs is there already, except for libraries of its own build.
    install -c constraints.txt torch
    install --no-deps --no-build-isolation -e . -e packages/experiment
else
    echo "No locked environment for this Python or machine: exact versions, without hashes."
    experiment=packages/experiment
    [ "$extra" = demo ] || experiment="packages/experiment[dev]"
    install -c constraints.txt -e ".[$extra]" -e "$experiment"
fi
# What else is in an environment that was there before is not ours to mend.
"$python" -m pip check >/dev/null 2>&1 || "$python" -m pip check || true
