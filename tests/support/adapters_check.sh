#!/bin/sh
# Runs each model zoo's tests in a fresh virtual environment with that zoo's extra alone.
# tests/support/adapters_check.sh [EXTRA…]
set -eu
cd "$(dirname "$0")/../.."
python=${PYTHON:-python3}
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT

tests_of() {
    case $1 in
    hf) echo "test_hf or test_dinov2 or (test_clip and not open_clip)" ;;
    *) echo "test_$1" ;;
    esac
}

for extra in ${*:-timm torchvision hf clip robustbench}; do
    "$python" -m venv "$room/venv"
    bin=$room/venv/bin
    "$bin/python" -m pip install --quiet --disable-pip-version-check -c constraints.txt \
        hypothesis pytest pytest-timeout ".[$extra]"
    # Neither the checkout nor another environment may lend a hand.
    env -u PYTHONPATH "$bin/python" -m pytest -q -rs -p no:cacheprovider \
        -m "slow or not slow" -k "$(tests_of "$extra")" tests/models/test_adapters.py \
        >"$room/log" || { cat "$room/log"; exit 1; }
    # A test may be left out for one reason alone, which is said in the sentence that users get.
    if grep "^SKIPPED" "$room/log" | grep -v "which is installed but cannot be imported"; then
        echo "$extra: these must run where the extra is installed"
        exit 1
    fi
    grep "^SKIPPED" "$room/log" | sed 's/^SKIPPED \[[0-9]*\] [^ ]* //' | sort -u
    echo "$extra: $(tail -n 1 "$room/log")"
    rm -rf "$room/venv"
done

# YAML files against their schemas, with a program that no extra needs
"$python" -m venv "$room/venv"
"$room/venv/bin/python" -m pip install --quiet --disable-pip-version-check check-jsonschema
sh tests/support/schemas_check.sh "$room/venv/bin"
