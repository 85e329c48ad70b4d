#!/bin/sh
# Gets what tests need besides Python's packages, where it is missing and can be had: Debian's
# chromium and PostgreSQL, and axe-core, which looks for what keeps people from using a page. Tests
# without it are skipped.
set -u

AXE=4.14.0
cd "$(dirname "$0")/../.." || exit 0
export DEBIAN_FRONTEND=noninteractive

# limited SECONDS COMMAND…: quietly, without questions, and no longer than that
limited() {
    seconds=$1
    shift
    if command -v timeout >/dev/null 2>&1; then
        timeout -k 10 "$seconds" "$@" >/dev/null 2>&1 </dev/null
    else
        "$@" >/dev/null 2>&1 </dev/null
    fi
}

has_browser() {
    for name in chromium chromium-browser google-chrome; do
        command -v "$name" >/dev/null 2>&1 && return 0
    done
    return 1
}

# as_root SECONDS COMMAND…: as root, if that needs no password
as_root() {
    seconds=$1
    shift
    if [ "$(id -u)" = 0 ]; then
        limited "$seconds" "$@"
    else
        limited "$seconds" sudo -n --preserve-env=DEBIAN_FRONTEND "$@"
    fi
}

apt_get() {
    as_root 300 apt-get -o DPkg::Lock::Timeout=60 -o Acquire::Retries=1 "$@"
}

# where Debian puts the programs of PostgreSQL's server, which are not in the path
has_postgresql() {
    command -v initdb >/dev/null 2>&1 && command -v pg_ctl >/dev/null 2>&1 && return 0
    for path in "${POSTGRESQL:-/usr/lib/postgresql}"/*/bin/initdb; do
        [ -x "$path" ] && return 0
    done
    return 1
}

# install PACKAGE WHAT: from Debian, or say that there is no WHAT
install() {
    if ! command -v apt-get >/dev/null 2>&1; then
        why="there is no apt-get"
    elif ! as_root 10 true; then
        why="that takes root"
    # lists of packages are fetched only if those that are there do not do
    elif apt_get -y --no-install-recommends install "$1" || {
        apt_get update && apt_get -y --no-install-recommends install "$1"
    }; then
        return 0
    else
        why="apt-get could not"
    fi
    echo "No tests $2: $1 is missing and cannot be installed here ($why)."
}

has_axe() {
    grep -q "\"version\": \"$AXE\"" build/npm/node_modules/axe-core/package.json 2>/dev/null
}

install_axe() {
    if ! command -v npm >/dev/null 2>&1; then
        why="there is no npm"
    elif mkdir -p build/npm && limited 180 npm install --prefix build/npm --no-save \
        --ignore-scripts --no-audit --no-fund --no-update-notifier "axe-core@$AXE" && has_axe; then
        return 0
    else
        why="npm could not"
    fi
    echo "No tests by axe-core: it is missing and cannot be installed here ($why)."
}

has_browser || install chromium "in a browser"
has_postgresql || install postgresql "of PostgreSQL"
has_axe || install_axe
exit 0
