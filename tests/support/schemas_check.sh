#!/bin/sh
# Validates YAML files of the repository against their published schemas.
# tests/support/schemas_check.sh [FOLDER]: the folder that contains the program check-jsonschema
set -eu
cd "$(dirname "$0")/../.."
check="${1:+$1/}check-jsonschema --quiet --builtin-schema"
$check vendor.github-workflows .github/workflows/*.yml
$check custom.github-workflows-require-timeout .github/workflows/*.yml
$check vendor.github-actions action.yml
$check vendor.github-issue-config .github/ISSUE_TEMPLATE/config.yml
$check vendor.github-issue-forms .github/ISSUE_TEMPLATE/bug.yml .github/ISSUE_TEMPLATE/feature.yml
$check vendor.citation-file-format CITATION.cff
echo "Workflows, action, issue forms and citation follow their schemas."
