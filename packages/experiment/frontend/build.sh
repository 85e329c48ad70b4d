#!/bin/sh
# Builds the pages of the experiment into the package: checks their types, then bundles them. Where
# there is no npm, or it gets no packages, that is said in one line, and tests of pages are skipped.
set -eu

cd "$(dirname "$0")"

if ! command -v npm >/dev/null 2>&1; then
    echo "The experiment's pages are not built: there is no npm here; install Node 20 or later."
    exit 0
fi
if [ ! node_modules/.installed -nt package-lock.json ]; then
    if ! npm ci --ignore-scripts --silent; then
        echo "The experiment's pages are not built: npm could not get its packages."
        exit 0
    fi
    touch node_modules/.installed
fi
npm run --silent check
npm run --silent build
echo "Built the experiment's pages: $(du -ch ../src/eyechart_experiment/static/* | tail -1 | cut -f1)."
