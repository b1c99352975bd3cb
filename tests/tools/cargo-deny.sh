#!/usr/bin/env bash
# Checks the dependency tree against deny.toml: licences, bans and duplicates, sources; with ADVISORIES=1 also known defects, whose
# database is fetched. cargo-deny is compiled once, and kept beside
# the build of kube-apiserver.
set -euo pipefail
cd "$(dirname "$0")/../.."

readonly version=0.20.2
readonly cache="${XDG_CACHE_HOME:-$HOME/.cache}/rukpak-rs/cargo-deny-$version"

is_it() { [[ "$("$1" --version 2>/dev/null)" == "cargo-deny $version" ]]; }

if found="$(command -v cargo-deny)" && is_it "$found"; then
  program=$found
else
  program=$cache/bin/cargo-deny
  mkdir -p "$cache"
  exec 9>"$cache/.lock"
  flock 9 # one builder at a time; whoever waited finds the result
  if ! is_it "$program"; then
    echo "building cargo-deny $version (once)" >&2
    # Without optimisation: it runs for a second, and compiling is what takes long.
    CARGO_PROFILE_DEV_DEBUG=0 CARGO_PROFILE_DEV_STRIP=symbols CARGO_TARGET_DIR="$cache/target" \
      cargo install --quiet --debug --locked --root "$cache" --version "$version" cargo-deny
    rm -rf "$cache/target"
  fi
  flock -u 9
fi
"$program" --locked check --hide-inclusion-graph licenses bans sources

# Known defects are in a git repository of their own. It is fetched if somebody asks; else a copy that was fetched before will do.
databases="${CARGO_HOME:-$HOME/.cargo}/advisory-dbs"
if [[ -n ${ADVISORIES:-} ]]; then
  exec "$program" --locked check --hide-inclusion-graph advisories
elif compgen -G "$databases/*/" >/dev/null; then
  exec "$program" --locked check --hide-inclusion-graph --disable-fetch advisories
else
  echo "SKIPPED: advisories were not checked: there is no copy of their database in $databases (ADVISORIES=1 fetches it)" >&2
fi
