#!/usr/bin/env bash
# Prints the path of Debian's kubectl, fetching the package (once) and unpacking it beside the other programs of Kubernetes. It is
# not installed: another kubectl may be there already, and it is none of ours.
#
# It is that of Debian 13, which runs on Debian 12 as well: the kustomize in that of Debian 12 is of 2019, and cannot read a
# kustomization of today.
set -euo pipefail

readonly release=trixie
readonly cache="${XDG_CACHE_HOME:-$HOME/.cache}/rukpak-rs/kubectl-$release"
readonly kubectl="$cache/kubectl"

if [[ -x $kubectl ]]; then echo "$kubectl"; exit 0; fi
mkdir -p "$cache"
exec 9>"$cache/.lock"
flock 9
if [[ -x $kubectl ]]; then echo "$kubectl"; exit 0; fi

echo "fetching kubectl of Debian 13" >&2
work=$(mktemp -d "$cache/fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial"
# That release in the very archive this machine installs from, kept apart from its configuration.
site=$(apt-get indextargets --format '$(ORIGIN)|$(SITE)|$(COMPONENT)|$(LABEL)' 'Created-By: Packages' |
  awk -F'|' '$1 == "Debian" && $3 == "main" && $4 == "Debian" { print $2; exit }')
[[ -n $site ]] || { echo "error: apt knows no Debian archive; run 'apt-get update' and try again" >&2; exit 2; }
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
option=
[[ ! -e $keyring ]] || option="[signed-by=$keyring] "
echo "deb $option$site $release main" >"$work/sources.list"
apt=(apt-get -o "Dir::Etc::sourcelist=$work/sources.list" -o Dir::Etc::sourceparts=- -o "Dir::State::lists=$work/lists"
  -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false
  -o Acquire::Languages=none -o APT::Sandbox::User=root)
"${apt[@]}" update -qq >&2
(cd "$work" && "${apt[@]}" download -qq "kubectl/$release" >&2)
dpkg -x "$work"/kubectl_*.deb "$work/tree"
mv "$work/tree/usr/bin/kubectl" "$kubectl"
echo "$kubectl"
