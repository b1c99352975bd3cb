#!/usr/bin/env bash
# Fuzzes the readers of what strangers write, on the stable toolchain: libFuzzer through its crate, and the compiler's own
# coverage. No sanitizer is needed, for there is no unsafe code of ours; checks of overflow and assertions are on.
#
#   tests/tools/fuzz.sh [seconds for each target] [target ...]
#
# Ends with 1 at the first input that panics, takes more than 30 seconds or needs more than 1 GiB, and says where it lies: move
# it to tests/fuzz/seeds/<target>/ under a name that says what it does, and `make test` replays it. What was found interesting
# is kept in target/fuzz-corpus, so that the next run goes on from there.
set -euo pipefail
cd "$(dirname "$0")/../.."

seconds=${1:-60}
[[ $seconds =~ ^[0-9]+$ ]] || { echo "error: $seconds is no number of seconds" >&2; exit 2; }
shift || true
known=(tests/fuzz/fuzz_targets/*.rs)
known=("${known[@]##*/}")
known=("${known[@]%.rs}")
targets=("${@:-${known[@]}}")
for target in "${targets[@]}"; do
  [[ -f tests/fuzz/fuzz_targets/$target.rs ]] || { echo "error: no target $target; there are: ${known[*]}" >&2; exit 2; }
done

host="$(rustc -vV | sed -n 's/^host: //p')"
# With --target, so that build scripts and macros are built without.
coverage=(-Cpasses=sancov-module)
for argument in level=4 inline-8bit-counters pc-table trace-compares; do
  coverage+=("-Cllvm-args=-sanitizer-coverage-$argument")
done
echo "building ${#targets[@]} fuzz targets with coverage" >&2
RUSTFLAGS="${coverage[*]}" cargo build --locked --profile fuzz --target "$host" --target-dir target/fuzz \
  -p rukpak-fuzz --features libfuzzer "${targets[@]/#/--bin=fuzz-}"

# Spool files and stores are made in memory where there is such a place: they are small, and there are thousands a second.
scratch="$(mktemp -d "$([[ -w /dev/shm ]] && echo /dev/shm || echo "${TMPDIR:-/tmp}")/rukpak-fuzz.XXXXXX")"
trap 'rm -rf "$scratch"' EXIT
for target in "${targets[@]}"; do
  corpus=target/fuzz-corpus/$target
  mkdir -p "$corpus" target/fuzz-artifacts
  options=("-max_total_time=$seconds" -timeout=30 -rss_limit_mb=1024 -max_len=16384 -print_final_stats=1
    "-artifact_prefix=target/fuzz-artifacts/$target-")
  [[ -f tests/fuzz/dictionaries/$target.txt ]] && options+=("-dict=tests/fuzz/dictionaries/$target.txt")
  echo "fuzzing $target for $seconds s" >&2
  TMPDIR="$scratch" "target/fuzz/$host/fuzz/fuzz-$target" "${options[@]}" "$corpus" "tests/fuzz/seeds/$target" >"$scratch/log" 2>&1 || {
    tail -n 40 "$scratch/log" >&2
    echo "error: $target failed; the input is in target/fuzz-artifacts" >&2
    exit 1
  }
  sed -n 's/^stat::\(number_of_executed_units\|peak_rss_mb\): */  \1 /p; /^#[0-9]*.*DONE/p' "$scratch/log" >&2
done
