#!/usr/bin/env bash
# Builds our programs and, at the same time, the control plane's, as far as they are not there yet. Arguments go to cargo.
set -euo pipefail

"$(dirname "$0")/control-plane.sh" >/dev/null &
kubernetes=$!
trap 'kill "$kubernetes" 2>/dev/null || true' EXIT
echo "building the programs: 10 to 20 minutes on 2 cores the first time, seconds later" >&2
cargo build --workspace "$@"
wait "$kubernetes"
trap - EXIT
