#!/usr/bin/env bash
# Installs the Debian packages that the build, the demo and the tests need; with --node also those of a node. Safe to run
# twice: it asks dpkg first and touches apt only for what is missing. On a system without apt it names the programs that are missing.
set -euo pipefail

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
  *) echo "error: unknown argument '$1'; there is --node" >&2; exit 2 ;;
esac

if ! { command -v dpkg-query && command -v apt-get; } >/dev/null; then
  # Programs stand for their packages, whose names differ from system to system.
  needed=(cc cmake pkg-config docker-registry htpasswd git gpg sshd ssh-keygen strace jq)
  [[ ${1:-} != --node ]] || needed+=(containerd ctr runc iptables ip conntrack)
  missing=()
  for program in "${needed[@]}"; do PATH="$PATH:/usr/sbin:/sbin" command -v "$program" >/dev/null || missing+=("$program"); done
  ((${#missing[@]})) || exit 0
  echo "error: programs are missing that only Debian and Ubuntu get from this script; install them: ${missing[*]} (and the headers of OpenSSL)" >&2
  exit 2
fi

missing=()
for package in "${packages[@]}"; do
  [[ "$(dpkg-query -W -f='${Status}' "$package" 2>/dev/null)" == "install ok installed" ]] || missing+=("$package")
done
((${#missing[@]})) || exit 0

as_root=()
if ((EUID != 0)); then
  command -v sudo >/dev/null || { echo "error: these packages are missing and this is neither root nor is there sudo: ${missing[*]}" >&2; exit 2; }
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
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
