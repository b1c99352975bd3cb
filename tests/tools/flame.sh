#!/usr/bin/env bash
# Draws flame graphs of the controller while it installs and upgrades many bundles, installs a large one, and restarts:
# target/flame/*.svg; and lists where the API server spends its CPU time meanwhile, by its own profiler: target/flame/*.txt.
# Optimised programs with symbols and frame pointers, in a folder of their own. inferno is compiled once, and kept beside the build
# of kube-apiserver. Arguments go to the bench: DEPLOYMENTS and OBJECTS set the sizes.
set -euo pipefail
cd "$(dirname "$0")/../.."

readonly version=0.12.8
readonly cache="${XDG_CACHE_HOME:-$HOME/.cache}/rukpak-rs/inferno-$version"
readonly into=${CARGO_TARGET_DIR:-target}/flame

command -v perf >/dev/null || { echo "error: perf is missing: apt-get install linux-perf" >&2; exit 2; }
if [[ ! -x $cache/bin/inferno-flamegraph ]]; then
  echo "building inferno $version (once)" >&2
  cargo install --quiet --locked --root "$cache" --version "$version" inferno
fi
CARGO_PROFILE_RELEASE_STRIP=none CARGO_PROFILE_RELEASE_DEBUG=line-tables-only RUSTFLAGS="${RUSTFLAGS:-} -Cforce-frame-pointers=yes" \
  cargo build --workspace --bins --release --target-dir "$into"
rm -f "$into"/*.perf "$into"/*.pb.gz
"$into/release/bench" --only scale --idle 1 --deployments "${DEPLOYMENTS:-200}" --objects "${OBJECTS:-5000}" --perf "$into" "$@"
for file in "$into"/*.perf; do
  name=$(basename "$file" .perf)
  perf script --input "$file" 2>/dev/null | "$cache/bin/inferno-collapse-perf" 2>/dev/null |
    "$cache/bin/inferno-flamegraph" --title "rukpak-controller: $name" >"$into/$name.svg"
  echo "$into/$name.svg"
done
for file in "$into"/*.pb.gz; do
  list=${file%.pb.gz}.txt
  # Where somebody else has built Kubernetes there may be no Go: the profile is there for whoever has.
  if go tool pprof -top -cum -nodecount=100 "$file" >"$list" 2>/dev/null; then echo "$list"; else echo "$file"; fi
done
