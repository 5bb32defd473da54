#!/bin/sh
# rlm-ci at work: on this repository's own last change, on an example that breaks every rule, and
# on one whose test fails, until it is green.
#
#   examples/demo.sh [BIN [ACT...]]   BIN: the folder of the environment's programs, if not on PATH
#                                     ACT: own, example, fix (default: all)
#
# Ends with 0 exactly when rlm-ci behaved as it should. Writes to build/demo only.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
cd "$here"
if [ $# -gt 0 ]; then
    PATH=$(CDPATH='' cd -- "$1" && pwd):$PATH
    shift
fi
acts=" ${*:-own example fix} "

# What a shell, a hook or a CI job around us has set must not decide what the demo shows.
for name in $(env | sed -nE 's/^((GIT|GITHUB|RLM|OPENAI|MCP_RUNNER|CODEX|DIFF_BUDGET|DELEGATION|DELEGATION_GUARD|PRE_COMMIT)_[A-Z0-9_]+|TASK|BASE_SHA|CI)=.*/\1/p'); do
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

# loop AGENT: the fix loop with one of the example's two agents; what it ended with is in $code
loop() {
    code=0
    rlm-ci -C "$work/prices" rlm 'No price may lose a cent' --validator 'python -m unittest' \
        --agent "python agents/$1.py" --sandbox "$sandbox" >"$work/$1.txt" 2>"$work/$1.log" ||
        code=$?
    folder=$(sed -n 's/^Run: //p' "$work/$1.log")
    rm -rf -- "${work:?}/$1"
    ln -s "$work/prices/.runs/rlm-prices/cli/$folder" "$work/$1"
}

own() {
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
}

example() {
    title '2. A pull request that breaks every rule: the comment it gets'
    python examples/build_demo_repository.py "$work" >/dev/null
    code=0
    CI=true rlm-ci -C "$work/shop" pr --event "$work/pull_request.json" --out "$work/example" \
        >"$work/example.txt" 2>"$work/example.log" || code=$?
    if [ -f "$work/example/comment.md" ]; then
        cat "$work/example/comment.md"
    fi
    judge example "$code" "$work/shop"
}

fix() {
    title '3. Fix until green: an agent edits a copy, the tests decide'
    case $(uname -s) in
        MINGW* | MSYS* | CYGWIN*)
            echo 'The fix loop needs Linux or macOS: skipped.'
            return
            ;;
    esac
    python examples/build_fix_repository.py "$work/prices"
    sandbox=auto
    loop mend
    if [ "$code" -eq 5 ] && grep -q '^error: .*sandbox' "$work/mend.log"; then
        sed 's/^/    /' "$work/mend.log" | grep -E '(error|hint): '
        printf '\nThe files of this example are harmless, so it continues with --sandbox none.\n\n'
        sandbox=none
        loop mend
    fi
    cat "$work/mend.txt"
    git -C "$work/prices" --no-pager diff --no-color --no-ext-diff -U0 -- prices.py
    judge mend "$code" "$work/prices"

    title '4. The same, with an agent that makes every price equal to everything'
    git -C "$work/prices" checkout --quiet -- .
    loop cheat
    cat "$work/cheat.txt"
    judge cheat "$code" "$work/prices"
}

for act in $acts; do
    "$act"
done

title 'What you saw'
if [ "$status" -ne 0 ]; then
    echo 'rlm-ci did not behave as it should: see what differs above.'
    exit "$status"
fi
shown() {
    case $acts in *" $1 "*) ;; *) return 1 ;; esac
}
if shown example; then
    cat <<END
The comment that a pull request gets on GitHub; rlm-ci ended with 1, so its check is red.
The branch had raised its own limits and hidden its files; rlm-ci used main's rules.

As a page:  $work/example/report.html
Try it:     $(command -v rlm-ci) -C $work/shop check --base main
END
fi
if shown fix && [ -d "$work/prices" ]; then
    cat <<END

An agent fixed a bug in a copy; rlm-ci confirmed it in a fresh copy and applied it. A second agent made
tests that could not fail; rlm-ci refused its patch. Both agents were scripts, so no key was needed.

All runs:   $(command -v rlm-ci) -C $work/prices list
END
fi
