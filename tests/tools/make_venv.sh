#!/bin/sh
# make_venv.sh VENV LOCK: a virtual environment with what LOCK pins, hash by hash.
# Every failure is one line that says what to do.
set -eu
venv=$1
lock=$2

fail() {
    echo "error: $1" >&2
    exit 1
}

recent() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }
has_venv() { "$1" -c 'import ensurepip, venv' 2>/dev/null; }

python=
incomplete=
for candidate in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11 python; do
    recent "$candidate" || continue
    if has_venv "$candidate"; then
        python=$candidate
        break
    fi
    incomplete=${incomplete:-$candidate}
done

if [ -z "$python" ] && [ -n "$incomplete" ]; then
    # Debian and Ubuntu take venv out of python3 and put it into a package of its own.
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        minor=$("$incomplete" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
        { apt-get update && apt-get install -y --no-install-recommends "python$minor-venv"; } \
            >&2 || fail "cannot install python$minor-venv: see apt-get's message above"
        python=$incomplete
    else
        fail "$incomplete has no venv module: install python3-venv with the system's packages"
    fi
fi
[ -n "$python" ] || fail "Python 3.11 or newer is needed: install it, or name it: make PYTHON=/path/to/python3"

# An environment whose own Python is gone or too old is made anew.
if [ -e "$venv" ] && ! recent "$venv/bin/python"; then
    rm -rf "$venv"
fi
[ -x "$venv/bin/pip" ] || "$python" -m venv "$venv" || fail "cannot make the environment in $venv"
# Most modules are never imported: Python compiles those that are, at their first import.
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-compile --require-hashes \
    --requirement "$lock" ||
    fail "cannot install from $lock: see pip's message above (a mirror is set by pip's own configuration)"
