#!/usr/bin/env bash
# Builds our programs and, at the same time, the control plane's, as far as they are not there yet. Arguments go to cargo.
set -euo pipefail

"$(dirname "$0")/control-plane.sh" >/dev/null &
kubernetes=$!
echo "building the programs: 10 to 20 minutes on 2 cores the first time, seconds later" >&2
cargo build --workspace "$@" &
cargo=$!
trap 'kill "$kubernetes" "$cargo" 2>/dev/null || true' EXIT
# Whichever fails ends the other: what is wrong is the last line, and not that of 20 minutes ago.
wait -n || true
kill -0 "$kubernetes" 2>/dev/null || wait "$kubernetes"
wait "$cargo"
wait "$kubernetes"
trap - EXIT
