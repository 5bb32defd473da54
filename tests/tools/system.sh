#!/bin/sh
# The programs that the tests need and that neither pip nor npm brings: installed where apt-get may
# do so, else named in one line.
set -eu

packages=
need() { packages="$packages $1"; }

chromium=${CHROMIUM:-}
for name in chromium chromium-browser google-chrome google-chrome-stable; do
    [ -n "$chromium" ] || chromium=$(command -v "$name" || true)
done
mac='/Applications/Google Chrome.app/Contents/MacOS/Google Chrome'
[ -n "$chromium" ] || [ -x "$mac" ] || need chromium
command -v jq >/dev/null || need jq
command -v node >/dev/null || need nodejs
command -v npm >/dev/null || need npm
if [ "$(uname -s)" = Linux ]; then
    # What runs untrusted is tested in the sandbox, and faults are injected by strace.
    command -v bwrap >/dev/null || need bubblewrap
    command -v strace >/dev/null || need strace
    command -v setpriv >/dev/null || need util-linux
fi
# Tests of projects in these languages are skipped where the language is not; CI skips none.
if [ -n "${CI:-}" ]; then
    command -v cargo >/dev/null || need cargo
    command -v go >/dev/null || need golang-go
fi
[ -z "$packages" ] && exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    export DEBIAN_FRONTEND=noninteractive
    log=$(mktemp)
    # shellcheck disable=SC2086 # a list of names
    if { apt-get update && apt-get install -y --no-install-recommends $packages; } >"$log" 2>&1; then
        rm -f "$log"
        exit 0
    fi
    cat "$log" >&2
fi
echo "error: the tests need these system packages, please install them:$packages" >&2
exit 1
