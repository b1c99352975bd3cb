#!/usr/bin/env bash
# Seeds each defect of tests/mutants into a copy of what is checked out, and runs the test that has to notice it. Prints a table, and
# ends with 1 if one survives.
#
#   tests/tools/mutants.sh [NUMBER ...]           SUITES=1: also those that only a suite with a cluster notices
#
# The copy shares the folder target, so that no crate of others is built again. So a patch of a program's crate names a test that
# builds no program (--lib), or else a suite: after those the programs are built again.
set -euo pipefail
cd "$(dirname "$0")/../.."

copy=$PWD/target/mutants
log=$PWD/target/mutants.log
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}
has_built_programs=
finish() {
  git worktree remove --force "$copy"
  [[ -z $has_built_programs ]] || cargo build --quiet --workspace --bins
}
git worktree prune
[[ ! -e $copy ]] || git worktree remove --force "$copy"
# With what is changed and not committed.
commit=$(git stash create)
git worktree add --quiet --detach "$copy" "${commit:-HEAD}"
trap finish EXIT

patches=(tests/mutants/*.patch)
(($# == 0)) || patches=("${@/*/tests/mutants/&-*.patch}")
survivors=0
for patch in ${patches[@]}; do
  name=$(basename "$patch" .patch)
  test=$(sed -n 's/^test: //p' "$patch")
  run=$(sed -n 's/^run: //p' "$patch")
  if [[ $run == *"--test suites"* ]]; then
    [[ ${SUITES:-} == 1 ]] || { printf '%-9s %-44s %s\n' "not run" "$name" "$test"; continue; }
    has_built_programs=yes
    run="cargo build --workspace --bins && $run"
  fi
  patch=$PWD/$patch
  result=survived
  (
    cd "$copy" && git apply "$patch" || exit 1
    eval "$run" || true
    git apply --reverse "$patch"
  ) >"$log" 2>&1 || result=broken
  # A scenario is named in the output of the test that has them all.
  if grep -q "could not compile" "$log"; then
    result=broken
  elif grep -qE "^test (.*::)?$test \.\.\. FAILED$|^$test: " "$log"; then
    result=killed
  fi
  printf '%-9s %-44s %s\n' "$result" "$name" "$test"
  [[ $result == killed ]] || { survivors=$((survivors + 1)); cp "$log" "$log.$name"; }
done
((survivors == 0)) || { echo "error: $survivors not killed; see target/mutants.log.*" >&2; exit 1; }
