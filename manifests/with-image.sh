#!/usr/bin/env bash
# Copies the rendered manifests with an image of yours in place of the name that nobody can publish.
#
#   manifests/with-image.sh registry.example.com/rukpak@sha256:... FOLDER
set -euo pipefail

readonly placeholder=registry.invalid/rukpak:set-me
image=${1:-} folder=${2:-}
# A registry, as it has a dot, a port or is localhost; else the name would be one of Docker's hub that nobody meant.
pattern='^([a-zA-Z0-9-]+(\.[a-zA-Z0-9-]+)+(:[0-9]+)?|[a-zA-Z0-9-]+:[0-9]+|localhost)(/[a-z0-9._-]+)+(:[a-zA-Z0-9._-]+)?(@sha256:[0-9a-f]{64})?$'
if [[ ! $image =~ $pattern || -z $folder ]]; then
  echo "error: '$image' is no image with its registry: registry.example.com/rukpak@sha256:... (with make: make manifests IMAGE=..., or make image before)" >&2
  exit 2
fi
if [[ ${image##*/} != *[:@]* ]]; then
  echo "error: '$image' has neither a tag nor a digest, and what runs as cluster administrator must not be whatever is latest" >&2
  exit 2
fi
[[ $image == *@sha256:* ]] || echo "note: a tag can be moved; a digest ($image@sha256:...) cannot" >&2

cd "$(dirname "$0")"
files=(install.yaml install-platform.yaml install-olm.yaml install-olmv0.yaml openshift/*.yaml)
[[ $folder == /* ]] || folder="$OLDPWD/$folder"
mkdir -p "$folder/openshift"
[[ ! $folder -ef . ]] || { echo "error: the copies must lie elsewhere than in $folder" >&2; exit 2; }
for file in "${files[@]}"; do
  sed "s|image: $placeholder\$|image: $image|" "$file" >"$folder/$file"
done
echo "written to $folder: ${files[*]:0:4} openshift/" >&2
