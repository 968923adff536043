#!/usr/bin/env bash
# Gradescope runs this once, as root and with a network, when it builds the image. Safe to repeat.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
export AUTOGRADER_CACHE="${AUTOGRADER_CACHE:-$PWD/cache}"
torch_index="@TORCH_INDEX_URL@"

python_here() {
    for name in .venv/bin/python python3 python3.13 python3.12 python3.11; do
        if "$name" -c 'import ensurepip, sys, venv; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null; then
            echo "$name"
            return
        fi
    done
    echo "Python 3.11, 3.12 or 3.13 is needed: choose a newer base image." >&2
    return 1
}

headers() {
    [ -e "$("$(python_here)" -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h" ]
}

lacking=()
python_here >/dev/null 2>&1 || lacking+=(python3 python3-venv)
headers 2>/dev/null || lacking+=(python3-dev)
command -v g++ >/dev/null || lacking+=(g++)
command -v bwrap >/dev/null || lacking+=(bubblewrap)
if [ ${#lacking[@]} -gt 0 ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends "${lacking[@]}" >/dev/null
fi

python=$(python_here)
[ -x .venv/bin/python ] || "$python" -m venv .venv
pip=(.venv/bin/python -m pip install --disable-pip-version-check --no-input -c course/constraints.txt)
if [ -n "$torch_index" ]; then "${pip[@]}" --no-deps --index-url "$torch_index" torch; fi
"${pip[@]}" ./course
.venv/bin/python -m autograder.cli setup

# What judges, and what is right, is for the judge alone wherever another user runs the submission.
installed=$(.venv/bin/python -I -c 'import autograder, os; print(os.path.dirname(autograder.__file__))')
chmod go-rwx course "$installed"/{chapters,classroom,course,judge}
