#!/usr/bin/env bash
# Prints the folder that holds kube-apiserver and kube-controller-manager, building both from
# Debian's source package when no copy is found. Progress goes to stderr, the folder to stdout.
#
#   tests/tools/control-plane.sh [--node]
#
# --node: the folder has to hold kubelet, kube-proxy and kube-scheduler as well (7 minutes more, once).
#
# Order: $KUBEBUILDER_ASSETS (the convention of envtest), PATH, the cache, a build (about 6 minutes
# on 2 cores, once). etcd comes from the Debian package and is looked up by the harness itself.
set -euo pipefail

here="$(cd "$(dirname "$0")" && pwd)"
readonly here version=1.20.2
# Another build of the same version: raise the number where the build below changes.
readonly cache="${XDG_CACHE_HOME:-$HOME/.cache}/rukpak-rs/kubernetes-$version-4"
binaries=(kube-apiserver kube-controller-manager)
case "${1:-}" in
  "") ;;
  --node) binaries+=(kubelet kube-proxy kube-scheduler) ;;
  *) echo "error: unknown argument '$1'; there is --node" >&2; exit 2 ;;
esac
readonly binaries

has_all() { local binary; for binary in "${binaries[@]}"; do [[ -x "$1/$binary" ]] || return 1; done; }

if [[ -n "${KUBEBUILDER_ASSETS:-}" ]]; then
  has_all "$KUBEBUILDER_ASSETS" && { echo "$KUBEBUILDER_ASSETS"; exit 0; }
  echo "note: KUBEBUILDER_ASSETS=$KUBEBUILDER_ASSETS lacks one of: ${binaries[*]}; looking further" >&2
fi
if found="$(command -v kube-apiserver)" && has_all "$(dirname "$found")"; then dirname "$found"; exit 0; fi
if has_all "$cache"; then echo "$cache"; exit 0; fi

# One builder at a time; whoever waited finds the result.
mkdir -p "$cache"
exec 9>"$cache/.lock"
flock 9
if has_all "$cache"; then echo "$cache"; exit 0; fi

as_root=()
((EUID == 0)) || as_root=(sudo)
started=$SECONDS
say() { printf '[%3ds] %s\n' "$((SECONDS - started))" "$*" >&2; }

# What an earlier build has left is not built again.
missing=()
for binary in "${binaries[@]}"; do [[ -x $cache/$binary ]] || missing+=("$binary"); done
say "not on this machine: ${missing[*]}; building $version from Debian's source package (once, about 7 minutes on 2 cores)"
needed=()
for package in golang-1.19-go golang-github-modern-go-reflect2-dev rsync dpkg-dev patch make gcc libc6-dev; do
  [[ "$(dpkg-query -W -f='${Status}' "$package" 2>/dev/null)" == "install ok installed" ]] || needed+=("$package")
done
if ((${#needed[@]})); then
  say "installing build tools: ${needed[*]}"
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${needed[@]}" >/dev/null
fi

work="$(mktemp -d "$cache/build.XXXXXX")"
trap 'chmod -R u+w "$work" 2>/dev/null; rm -rf "$work"' EXIT
chmod 755 "$cache" "$work"

# A deb-src view of the very archives this machine installs from, kept apart from its configuration.
say "fetching the source package"
mkdir -p "$work/apt/lists/partial" "$work/src"
apt-get indextargets --format '$(ORIGIN)|$(SITE)|$(RELEASE)|$(COMPONENT)|$(SIGNED_BY)' 'Created-By: Packages' |
  while IFS='|' read -r origin site release component signed_by; do
    [[ $origin == Debian ]] || continue
    option=
    [[ $signed_by == /* ]] && option="[signed-by=$signed_by] "
    echo "deb-src ${option}$site $release $component"
  done | sort -u >"$work/apt/sources.list"
[[ -s $work/apt/sources.list ]] || { say "error: apt knows no Debian archive; run 'apt-get update' and try again"; exit 2; }
apt_source=(-o "Dir::Etc::sourcelist=$work/apt/sources.list" -o Dir::Etc::sourceparts=- -o "Dir::State::lists=$work/apt/lists"
  -o APT::Get::List-Cleanup=0 -o APT::Sandbox::User=root)
apt-get "${apt_source[@]}" update -qq >&2
(cd "$work/src" && apt-get "${apt_source[@]}" source -qq --download-only "kubernetes=$version*" >&2 2>/dev/null ||
  apt-get "${apt_source[@]}" source -qq --download-only kubernetes >&2)
(cd "$work/src" && dpkg-source --no-check -x kubernetes_*.dsc tree >/dev/null)

# GOPATH layout: module mode wants to change go.mod. The vendored reflect2 crashes with Go 1.18 or newer.
tree="$work/go/src/k8s.io/kubernetes"
mkdir -p "$(dirname "$tree")"
mv "$work/src/tree" "$tree"
rm -rf "$tree/vendor/github.com/modern-go/reflect2"
cp -rL /usr/share/gocode/src/github.com/modern-go/reflect2 "$tree/vendor/github.com/modern-go/reflect2"

# This version makes the OpenAPI document of the whole API when it starts and at each change of a CRD, asked for or not: half of the CPU
# time of a start, and a tenth of what follows. Later ones make it when somebody asks, and so does this one with the patch.
patch -p1 -d "$tree" --quiet <"$here/openapi.patch" >&2 || { say "error: openapi.patch does not fit this source package"; exit 1; }

say "compiling ${missing[*]}"
export PATH="/usr/lib/go-1.19/bin:$PATH" GOPATH="$work/go" GO111MODULE=off GOCACHE="$work/gocache" GOFLAGS= CGO_ENABLED=0
export KUBE_GIT_VERSION="v$version" KUBE_GIT_MAJOR=1 KUBE_GIT_MINOR=20 KUBE_GIT_COMMIT=debian KUBE_GIT_TREE_STATE=archive
log="$cache/build.log"
make -C "$tree" WHAT="$(printf 'cmd/%s ' "${missing[@]}")" GOLDFLAGS="-s -w" >"$log" 2>&1 &
build=$!
while kill -0 "$build" 2>/dev/null; do
  sleep 15 # the only clock here: a line of progress every 15 s, for whoever watches
  kill -0 "$build" 2>/dev/null && say "still compiling: $(tail -n 1 "$log" | cut -c1-100)"
done
wait "$build" || { say "error: the build failed; the end of $log:"; tail -n 30 "$log" >&2; exit 1; }

for binary in "${missing[@]}"; do
  install -m 755 "$(find "$tree/_output" -type f -name "$binary" -perm -u+x | head -n 1)" "$cache/.$binary"
done
for binary in "${missing[@]}"; do mv "$cache/.$binary" "$cache/$binary"; done
say "done: $cache"
echo "$cache"
