#!/usr/bin/env bash
# Prints the path of Debian's kubectl, fetching the package (once) and unpacking it beside the other programs of Kubernetes. It is
# not installed: another kubectl may be there already, and it is none of ours.
set -euo pipefail

readonly cache="${XDG_CACHE_HOME:-$HOME/.cache}/rukpak-rs/kubernetes-client"
readonly kubectl="$cache/usr/bin/kubectl"

if [[ -x $kubectl ]]; then echo "$kubectl"; exit 0; fi
as_root=()
if ((EUID != 0)); then as_root=(sudo); fi
mkdir -p "$cache"
exec 9>"$cache/.lock"
flock 9
if [[ ! -x $kubectl ]]; then
  echo "fetching Debian's kubernetes-client" >&2
  work=$(mktemp -d "$cache/fetch.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  fetch() { (cd "$work" && apt-get download -qq -o APT::Sandbox::User=root kubernetes-client >&2); }
  # The package lists may be missing or old.
  fetch 2>/dev/null || { "${as_root[@]}" apt-get update -qq >&2 && fetch; }
  dpkg -x "$work"/kubernetes-client_*.deb "$work/tree"
  mkdir -p "$(dirname "$kubectl")"
  mv "$work/tree/usr/bin/kubectl" "$kubectl"
fi
echo "$kubectl"
