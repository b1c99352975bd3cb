#!/usr/bin/env bash
# Prints the path of a Chromium without a window, installing Debian's if there is none. The tests that look at pages go without it
# where it cannot be installed, and say so.
set -euo pipefail

for name in chromium-headless-shell chromium chromium-browser; do
  if path=$(command -v "$name"); then echo "$path"; exit 0; fi
done
exec 9>"${TMPDIR:-/tmp}/rukpak-browser.lock"
flock 9
as_root=()
((EUID == 0)) || as_root=(sudo --non-interactive)
echo "installing from Debian: chromium-headless-shell" >&2
"${as_root[@]}" apt-get update -qq >&2
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium-headless-shell >&2
command -v chromium-headless-shell
