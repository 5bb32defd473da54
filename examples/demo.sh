#!/bin/sh
# rlm-ci at work: on this repository's own last change, then on an example that breaks every rule.
#
#   examples/demo.sh [BIN]     BIN: the folder of the environment's programs, if not on PATH
#
# Ends with 0 exactly when rlm-ci behaved as it should. Writes to build/demo only.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
cd "$here"
if [ $# -gt 0 ]; then
    PATH=$(CDPATH='' cd -- "$1" && pwd):$PATH
fi

# What a shell, a hook or a CI job around us has set must not decide what the demo shows.
for name in $(env | sed -nE 's/^((GIT|GITHUB|RLM|MCP_RUNNER|CODEX|DIFF_BUDGET|DELEGATION|DELEGATION_GUARD|PRE_COMMIT)_[A-Z0-9_]+|TASK|BASE_SHA|CI)=.*/\1/p'); do
    unset "$name"
done

work=$here/build/demo
status=0
rm -rf -- "$work"
mkdir -p -- "$work"

if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then
    bold=$(printf '\033[1m') plain=$(printf '\033[0m')
else
    bold='' plain=''
fi
title() {
    printf '\n%s%s%s\n\n' "$bold" "$1" "$plain"
}

# judge NAME CODE [REPOSITORY]
judge() {
    judged=$1
    if ! python examples/judge_demo.py "$judged" "$work/$judged" "$2" ${3+"$3"}; then
        sed 's/^/stderr: /' "$work/$judged.log"
        status=1
    fi
}

title '1. This repository, its own last change'
if ! git rev-parse --quiet --verify 'HEAD^{commit}' >/dev/null 2>&1; then
    echo 'There is no commit here to look at: skipped.'
elif ! git rev-parse --quiet --verify 'HEAD^1' >/dev/null 2>&1; then
    if [ "$(git rev-parse --is-shallow-repository)" = true ]; then
        echo 'This clone is shallow, so its last change is not known: skipped.'
        echo "(git fetch --unshallow brings the rest.)"
    else
        echo 'The one commit here has no parent to compare with: skipped.'
    fi
else
    code=0
    rlm-ci pr --base HEAD^1 --head HEAD --out "$work/own" 2>"$work/own.log" || code=$?
    judge own "$code"
fi

title '2. A pull request that breaks every rule: the comment it gets'
python examples/build_demo_repository.py "$work" >/dev/null
code=0
CI=true rlm-ci -C "$work/shop" pr --event "$work/pull_request.json" --out "$work/example" \
    >"$work/example.txt" 2>"$work/example.log" || code=$?
if [ -f "$work/example/comment.md" ]; then
    cat "$work/example/comment.md"
fi

title 'What you saw'
judge example "$code" "$work/shop"
if [ "$status" -eq 0 ]; then
    cat <<END
The comment that a pull request gets on GitHub; rlm-ci ended with 1, so its check is red.
The branch had raised its own limits and hidden its files; it was judged by main's rules.

As a page:  $work/example/report.html
Try it:     $(command -v rlm-ci) -C $work/shop check --base main
END
else
    echo 'rlm-ci did not behave as it should: see what differs above.'
fi
exit "$status"
