#!/usr/bin/env bash
# Installs the Debian packages that the build, the demo and the tests need; with --node also those of a node. Safe to run
# twice: it asks dpkg first and touches apt only for what is missing.
set -euo pipefail

packages=(
  # to build: a C compiler for ring, libgit2 and zstd; OpenSSL for git over https and ssh
  build-essential pkg-config libssl-dev cmake
  # to run: the peers that the tests talk to
  etcd-server docker-registry apache2-utils git gnupg openssh-server openssh-client libnss-wrapper ca-certificates strace
  # to put the image together
  jq
)
case "${1:-}" in
  "") ;;
  --node) packages+=(containerd runc containernetworking-plugins iptables iproute2 conntrack libc6-dev) ;;
  *) echo "error: unknown argument '$1'; there is --node" >&2; exit 2 ;;
esac

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
