#!/usr/bin/env bash
# Gradescope runs this for every submission, in /autograder: from submission/ to results/results.json.
set -euo pipefail
place="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
export AUTOGRADER_CACHE="${AUTOGRADER_CACHE:-$place/source/cache}"
exec "$place/source/.venv/bin/python" -I -m autograder.classroom.gradescope "$place" "@SLUG@"
