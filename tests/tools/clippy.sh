#!/usr/bin/env bash
# Runs clippy with warnings as errors, on the release of Rust that Cargo.toml names: another one has other lints.
set -euo pipefail
cd "$(dirname "$0")/../.."

wanted=$(sed -n 's/^rust-version = "\([0-9.]*\)".*/\1/p' Cargo.toml)
cargo=(cargo)
if [[ $(rustc --version) != "rustc $wanted."* ]]; then
  release=$(rustup toolchain list 2>/dev/null | sed -n "s/^\($wanted[.0-9]*\)-.*/\1/p" | head -n 1)
  [[ -n $release ]] || {
    echo "error: lints are those of Rust $wanted, and here is $(rustc --version): rustup toolchain install $wanted --component clippy --component rustfmt" >&2
    exit 2
  }
  cargo=(cargo "+$release")
fi
exec "${cargo[@]}" clippy --workspace --all-targets -- -D warnings
