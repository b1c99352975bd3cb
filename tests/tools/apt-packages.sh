#!/usr/bin/env bash
# Installs the Debian packages that the build, the demo and the tests need; with --node also those of a node. Safe to run
# twice: it asks dpkg first and touches apt only for what is missing. On a system without apt it names the programs that are missing.
# Rust does not come from here, for Debian's is too old: it says where there is none that will do.
set -euo pipefail

fail() { echo "error: $*" >&2; exit 2; }

# Not before the packages: root's PATH may lack the Rust of whoever builds.
need_rust() {
  local wanted program release rust
  wanted=$(sed -n 's/^rust-version = "\([0-9.]*\)".*/\1/p' "$(dirname "$0")/../../Cargo.toml")
  rust="install Rust $wanted or newer, for instance with rustup (https://rustup.rs)"
  for program in cargo rustc; do command -v "$program" >/dev/null || fail "$program is missing: $rust"; done
  release=$(rustc --version 2>&1) || fail "rustc does not work (${release%%$'\n'*}): $rust"
  printf '%s\n' "rustc $wanted" "$release" | sort --version-sort --check=quiet || fail "${release% (*} is too old: $rust"
}

packages=(
  # to build: a C compiler for ring, libgit2 and zstd; OpenSSL for git over https and ssh
  build-essential pkg-config libssl-dev cmake
  # to run: the peers that the tests talk to
  docker-registry apache2-utils git gnupg openssh-server openssh-client libnss-wrapper ca-certificates strace
  # to put the image together
  jq
)
case "${1:-}" in
  "") ;;
  --node) packages+=(containerd runc containernetworking-plugins iptables iproute2 conntrack libc6-dev) ;;
  *) fail "unknown argument '$1'; there is --node" ;;
esac

if ! { command -v dpkg-query && command -v apt-get; } >/dev/null; then
  # Programs stand for their packages, whose names differ from system to system.
  needed=(cc cmake pkg-config docker-registry htpasswd git gpg sshd ssh-keygen strace jq)
  [[ ${1:-} != --node ]] || needed+=(containerd ctr runc iptables ip conntrack)
  missing=()
  for program in "${needed[@]}"; do PATH="$PATH:/usr/sbin:/sbin" command -v "$program" >/dev/null || missing+=("$program"); done
  ((${#missing[@]})) || { need_rust; exit; }
  fail "programs are missing that only Debian and Ubuntu get from this script; install them: ${missing[*]} (and the headers of OpenSSL)"
fi

missing=()
for package in "${packages[@]}"; do
  [[ "$(dpkg-query -W -f='${Status}' "$package" 2>/dev/null)" == "install ok installed" ]] || missing+=("$package")
done
((${#missing[@]})) || { need_rust; exit; }

as_root=()
if ((EUID != 0)); then
  command -v sudo >/dev/null || fail "packages are missing, and this is neither root nor is there sudo; install them as root: apt-get install ${missing[*]}"
  as_root=(sudo)
fi

echo "installing from Debian: ${missing[*]}" >&2
# The servers are started by the harness on free ports; Debian's own units must stay down.
policy=/usr/sbin/policy-rc.d
made_policy=
if [[ ! -e $policy ]]; then
  printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null
  "${as_root[@]}" chmod 755 "$policy"
  made_policy=yes
fi
trap '[[ -z $made_policy ]] || "${as_root[@]}" rm -f "$policy"' EXIT
{
  "${as_root[@]}" apt-get update -qq &&
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
} || fail "apt-get failed, the lines above say why; mend that, or install by hand: ${missing[*]}"
need_rust
