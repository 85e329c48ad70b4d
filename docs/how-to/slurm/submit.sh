#!/bin/bash
# Submit an evaluation in eight shards, and a job that merges them once all have succeeded.
# MODELS, IMAGES, N, DEVICE, OPTIONS and OUT are read by evaluate.sbatch.
set -eu
here=$(cd "$(dirname "$0")" && pwd)

job=$(sbatch --parsable --array="${ARRAY:-1-8}" "$here/evaluate.sbatch")
# With --parsable, clusters append their name: 1234;cluster.
sbatch --dependency="afterok:${job%%;*}" --wrap "eyechart merge '${OUT:-run}'"
