#!/usr/bin/env bash
# Has cargo-mutants change every function of the crates in .cargo/mutants.toml, or of the files that are given, and run the crate's own
# tests for each change. Results lie in target/mutants.out; ends with 2 if a change survives. cargo-mutants is compiled once.
#
#   tests/tools/cargo-mutants.sh [FILE ...]          SHARD=0/20: only every twentieth change
set -euo pipefail
cd "$(dirname "$0")/../.."

readonly version=27.1.0
readonly cache="${XDG_CACHE_HOME:-$HOME/.cache}/rukpak-rs/cargo-mutants-$version"
program=$cache/bin/cargo-mutants
if [[ ! -x $program ]]; then
  echo "building cargo-mutants $version (once)" >&2
  CARGO_TARGET_DIR="$cache/target" cargo install --quiet --debug --locked --root "$cache" --version "$version" cargo-mutants
  rm -rf "$cache/target"
fi

# In a copy of what is checked out, and with the crates of others that are built already.
copy=$PWD/target/mutants
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}
git worktree prune
[[ ! -e $copy ]] || git worktree remove --force "$copy"
commit=$(git stash create)
git worktree add --quiet --detach "$copy" "${commit:-HEAD}"
trap 'git worktree remove --force "$copy"' EXIT
"$program" mutants --dir "$copy" --in-place --output target ${SHARD:+"--shard=$SHARD" --sharding=round-robin} \
  "${@/#/--file=}"
