#!/usr/bin/env bash
# Makes what `make node-test` upgrades from: image and manifests of the version before.
#
#   tests/tools/image-before.sh FOLDER [COMMIT]
#
# FOLDER gets image/ (rukpak.tar, reference) and manifests/. With COMMIT they are those of that commit, built from its sources, which takes as long as a first
# `make image` (FOLDER/source keeps what was compiled). Without, they are the programs that `make image` has just built, in an image
# that says that it is a minute older: another digest, other Pods, the same code.
set -euo pipefail
cd "$(dirname "$0")/../.."

(($# == 1 || $# == 2)) || { sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2; }
mkdir -p "$1"
folder=$(realpath "$1") commit=${2:-}
readonly name=localhost/rukpak-before

if [[ -z $commit ]]; then
  epoch=$(git log -1 --format=%ct)
  SOURCE_DATE_EPOCH=$((epoch - 60)) manifests/image/build.sh target/image/build/release "$folder/image" "$name"
  manifests/with-image.sh "$(<"$folder/image/reference")" "$folder/manifests"
  exit
fi

commit=$(git rev-parse --verify "$commit^{commit}")
mkdir -p "$folder/source"
# What was compiled stays; all else is of that commit alone.
find "$folder/source" -mindepth 1 -maxdepth 1 ! -name target -exec rm -rf {} +
git archive "$commit" | tar --extract --directory="$folder/source"
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct "$commit")
# It is no clone: the repository around it is of another commit.
export SOURCE_DATE_EPOCH GIT_CEILING_DIRECTORIES=$folder
make -C "$folder/source" image IMAGE_NAME="$name"
mkdir -p "$folder/image"
cp "$folder/source/target/image/"{rukpak.tar,reference} "$folder/image/"
"$folder/source/manifests/with-image.sh" "$(<"$folder/image/reference")" "$folder/manifests"
