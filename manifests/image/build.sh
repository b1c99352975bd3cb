#!/usr/bin/env bash
# Builds the image of the programs: no daemon, no root, and the same bytes each time.
#
#   manifests/image/build.sh PROGRAMS FOLDER [NAME]
#
# PROGRAMS is the folder of rukpak-controller, rukpak-platform and rukpak-webhook (target/image/build/release with make image).
# Helm, which renders charts, is that of tests/tools/helm.sh.
# FOLDER gets oci/ (an OCI layout), rukpak.tar (the same as an archive, for ctr, podman and docker), sbom.spdx.json, and
# reference (NAME by digest). NAME is the image's name, with or without a tag: localhost/rukpak when left out.
set -euo pipefail

readonly programs=(rukpak-controller rukpak-platform rukpak-webhook)
readonly user=65532 # runAsUser of the manifests
here="$(cd "$(dirname "$0")" && pwd)"
readonly here sources="$here/../.."

fail() { echo "error: $*" >&2; exit 2; }

(($# == 2 || $# == 3)) || { sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }
from=$1 folder=$2 name=${3:-localhost/rukpak}
[[ $name != *@* ]] || fail "'$name' names a digest, and the digest is what comes out: leave it away"
tag=latest
if [[ ${name##*/} == *:* ]]; then tag=${name##*:} name=${name%:*}; fi
for program in "${programs[@]}"; do
  [[ -x $from/$program ]] || fail "there is no $from/$program: build it first, as 'make image' does"
done
for tool in jq ldd dpkg-query; do
  command -v "$tool" >/dev/null || fail "there is no $tool: tests/tools/apt-packages.sh installs it (libraries are those of a Debian)"
done

helm=$("$sources/tests/tools/helm.sh")

# All times are one: that of the commit, unless SOURCE_DATE_EPOCH says otherwise.
epoch=${SOURCE_DATE_EPOCH:-$(git -C "$sources" log -1 --format=%ct 2>/dev/null || true)}
[[ $epoch =~ ^[0-9]+$ ]] || fail "this is no git clone, so nothing tells the time of the sources: set SOURCE_DATE_EPOCH to seconds since 1970"
created=$(date -u -d "@$epoch" +%Y-%m-%dT%H:%M:%SZ)
revision=$(git -C "$sources" rev-parse HEAD 2>/dev/null || echo unknown)
[[ $revision == unknown || -z $(git -C "$sources" status --porcelain --untracked-files=no) ]] || revision+=-modified
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"$/\1/p' "$sources/Cargo.toml")
architecture=$(dpkg --print-architecture)

export LC_ALL=C
umask 022
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
work=$(mktemp -d "$folder/work.XXXXXX")
trap 'rm -rf "$work"' EXIT

# The libraries that the loader finds for these programs, at the paths where it finds them. Lines: PATH PACKAGE.
libraries() {
  local program found path candidate package
  for program in "${programs[@]}"; do
    found=$(ldd "$from/$program" 2>&1 || true)
    [[ $found != *"not found"* ]] || fail "$program lacks a library on this machine: $(grep 'not found' <<<"$found")"
    awk '$2 == "=>" && $3 ~ /^\// { print $3 } $1 ~ /^\// { print $1 }' <<<"$found"
  done | sort -u | while read -r path; do
    package=
    # The package may name the file by the path from before /lib became a link to /usr/lib, or the other way round.
    for candidate in "$path" "/usr$path" "${path#/usr}" "$(realpath "$path")"; do
      package=$(dpkg-query -S "$candidate" 2>/dev/null | head -n 1 | sed 's/:.*//') && [[ -n $package ]] && break
    done
    [[ -n $package ]] || fail "$path belongs to no Debian package, so nobody can tell its version"
    echo "$path $package"
  done
}

# What is under the programs: libraries, CA roots, a user. With the packages as security scanners and licences want to find them.
system_layer() {
  local root=$1 path package
  libraries >"$work/libraries"
  { cut -d' ' -f2 "$work/libraries"; echo ca-certificates; } | sort -u >"$work/packages"
  while read -r path package; do
    install -D -m 755 "$path" "$root$path"
  done <"$work/libraries"
  while read -r package; do
    mkdir -p "$root/var/lib/dpkg/status.d"
    dpkg-query -s "$package" >"$root/var/lib/dpkg/status.d/$package"
    install -D -m 644 "/usr/share/doc/$package/copyright" "$root/usr/share/doc/$package/copyright"
  done <"$work/packages"
  # From the package, not from /etc/ssl/certs: this machine may trust authorities of its own, and the image must not.
  mkdir -p "$root/etc/ssl/certs"
  dpkg-query -L ca-certificates | grep '^/usr/share/ca-certificates/.*\.crt$' | sort | xargs cat >"$root/etc/ssl/certs/ca-certificates.crt"
  install -m 644 /etc/os-release "$root/etc/os-release"
  printf 'root:x:0:0:root:/:/sbin/nologin\nrukpak:x:%s:%s:rukpak:/:/sbin/nologin\n' "$user" "$user" >"$root/etc/passwd"
  printf 'root:x:0:\nrukpak:x:%s:\n' "$user" >"$root/etc/group"
  printf 'hosts: files dns\n' >"$root/etc/nsswitch.conf"
  mkdir -m 1777 "$root/tmp"
}

programs_layer() {
  local root=$1 program
  for program in "${programs[@]}"; do install -m 755 "$from/$program" "$root/$program"; done
  install -m 755 "$helm" "$root/helm"
}

# Puts a file among the blobs and prints "DIGEST SIZE".
blob() {
  local digest
  digest=$(sha256sum <"$1" | cut -d' ' -f1)
  mv "$1" "$work/oci/blobs/sha256/$digest"
  echo "sha256:$digest $(stat -c %s "$work/oci/blobs/sha256/$digest")"
}

# Makes a layer of what function $1 puts into a folder; prints "DIFF_ID DIGEST SIZE".
layer() {
  local root="$work/$1" diff
  mkdir "$root"
  "$1" "$root"
  (cd "$root" && find . -mindepth 1 -printf '%P\0' | sort -z |
    tar --create --format=ustar --no-recursion --null --files-from=- --mtime="@$epoch" --owner=0 --group=0 --numeric-owner) >"$work/layer.tar"
  diff=sha256:$(sha256sum <"$work/layer.tar" | cut -d' ' -f1)
  gzip -n "$work/layer.tar"
  echo "$diff $(blob "$work/layer.tar.gz")"
}

mkdir -p "$work/oci/blobs/sha256"
system=$(layer system_layer)
own=$(layer programs_layer)
read -r system_diff system_digest system_size <<<"$system"
read -r own_diff own_digest own_size <<<"$own"

jq -ncS --arg architecture "$architecture" --arg created "$created" --arg user "$user:$user" --arg revision "$revision" \
  --arg version "$version" --arg system "$system_diff" --arg own "$own_diff" '{
    architecture: $architecture, os: "linux", created: $created,
    config: { User: $user, Entrypoint: ["/rukpak-controller"], WorkingDir: "/", Labels: {
      "org.opencontainers.image.title": "rukpak",
      "org.opencontainers.image.description": "Provisioner of Kubernetes bundles: rukpak-controller, rukpak-webhook, rukpak-platform",
      "org.opencontainers.image.licenses": "Apache-2.0",
      "org.opencontainers.image.version": $version,
      "org.opencontainers.image.revision": $revision,
      "org.opencontainers.image.created": $created } },
    rootfs: { type: "layers", diff_ids: [$system, $own] },
    history: [{ created: $created, created_by: "libraries and CA roots of Debian" }, { created: $created, created_by: "programs" }]
  }' >"$work/config.json"
read -r config_digest config_size <<<"$(blob "$work/config.json")"

jq -ncS --arg config "$config_digest" --argjson config_size "$config_size" --arg system "$system_digest" \
  --argjson system_size "$system_size" --arg own "$own_digest" --argjson own_size "$own_size" '
  ("application/vnd.oci.image." as $type | {
    schemaVersion: 2, mediaType: ($type + "manifest.v1+json"),
    config: { mediaType: ($type + "config.v1+json"), digest: $config, size: $config_size },
    layers: [[$system, $system_size], [$own, $own_size] | { mediaType: ($type + "layer.v1.tar+gzip"), digest: .[0], size: .[1] }]
  })' >"$work/manifest.json"
read -r digest size <<<"$(blob "$work/manifest.json")"

# The layout's entry, and manifest.json, which is what docker reads in the archive.
echo '{"imageLayoutVersion":"1.0.0"}' >"$work/oci/oci-layout"
jq -ncS --arg digest "$digest" --argjson size "$size" --arg name "$name" --arg tag "$tag" --arg architecture "$architecture" '{
    schemaVersion: 2, mediaType: "application/vnd.oci.image.index.v1+json",
    manifests: [{ mediaType: "application/vnd.oci.image.manifest.v1+json", digest: $digest, size: $size,
      platform: { architecture: $architecture, os: "linux" },
      annotations: { "org.opencontainers.image.ref.name": $tag, "io.containerd.image.name": ($name + ":" + $tag) } }]
  }' >"$work/oci/index.json"
cp -r "$work/oci" "$work/archive"
jq -ncS --arg config "$config_digest" --arg system "$system_digest" --arg own "$own_digest" --arg name "$name:$tag" '
  def blob: "blobs/" + sub(":"; "/");
  [{ Config: ($config | blob), RepoTags: [$name], Layers: [$system, $own | blob] }]' >"$work/archive/manifest.json"
(cd "$work/archive" && find . -type f -printf '%P\0' | sort -z |
  tar --create --format=ustar --null --files-from=- --mtime="@$epoch" --owner=0 --group=0 --numeric-owner --mode=a=r,u+w) >"$work/rukpak.tar"

"$here/sbom.sh" "$name" "$version" "$digest" "$created" "$work/packages" "$helm" >"$work/sbom.spdx.json"

rm -rf "$folder/oci"
mv "$work/oci" "$work/rukpak.tar" "$work/sbom.spdx.json" "$folder/"
echo "$name@$digest" >"$folder/reference"
printf '%s\n' "image      $name:$tag" "digest     $digest" \
  "size       $(numfmt --to=iec $((system_size + own_size))) to pull, $(numfmt --to=iec "$(du -sb --apparent-size "$work/system_layer" "$work/programs_layer" | awk '{ sum += $1 } END { print sum }')") unpacked" \
  "libraries  $(cut -d' ' -f1 "$work/libraries" | xargs -n 1 basename | paste -sd' ')" \
  "written    $folder/oci/ $folder/rukpak.tar $folder/sbom.spdx.json ($(jq '.packages | length' "$folder/sbom.spdx.json") packages)"
