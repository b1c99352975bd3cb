#!/usr/bin/env bash
# Prints the path of Helm, which renders charts: of the version in tests/tools/helm/go.mod, built from its Go module if it is not there
# yet. Progress goes to stderr. HELM=FILE brings it along instead.
#
#   tests/tools/helm.sh
#
# To move the version: `cd tests/tools/helm && go get helm.sh/helm/v3@v3.23.0 && go mod tidy`, and check in both files. It is linked
# statically, and so runs as a child that sees nothing else of the system.
set -euo pipefail

tools="$(cd "$(dirname "$0")" && pwd)"
readonly tools module="$tools/helm"
fail() { echo "error: $*" >&2; exit 2; }

if [[ -n ${HELM:-} ]]; then
  command -v "$HELM" || fail "there is no program HELM=$HELM"
  exit
fi
[[ -n ${XDG_CACHE_HOME:-${HOME:-}} ]] || fail "HOME is not set: set it, or XDG_CACHE_HOME, to where builds are kept"
readonly root="${XDG_CACHE_HOME:-${HOME:-}/.cache}/rukpak-rs"
version=$(sed -n 's|^\(require \)\{0,1\}[[:space:]]*helm.sh/helm/v3 \(v[0-9.]*\)\( // indirect\)\{0,1\}$|\2|p' "$module/go.mod")
[[ -n $version ]] || fail "$module/go.mod names no version of helm.sh/helm/v3"
# What a chart is told where there is no cluster: without these flags Kubernetes 1.20.
minor=$(sed -n 's|^[[:space:]]*k8s.io/client-go v0\.\([0-9]*\)\..*|\1|p' "$module/go.mod")
flags="-s -w -X helm.sh/helm/v3/internal/version.version=$version"
for package in chartutil lint/rules; do
  flags+=" -X helm.sh/helm/v3/pkg/$package.k8sVersionMajor=1 -X helm.sh/helm/v3/pkg/$package.k8sVersionMinor=$minor"
done
# What is built otherwise is another folder.
recipe=$(cat "$module/go.mod" "$module/go.sum" <(echo "$flags") | sha256sum)
readonly version folder="$root/helm-${version#v}-${recipe:0:8}"

if [[ ! -x $folder/helm ]]; then
  export PATH="$PATH:/usr/local/go/bin:/usr/lib/go/bin"
  command -v go >/dev/null || fail "Go is missing, which builds Helm: install Go 1.21 or newer, or set HELM to a static build of Helm 3"
  mkdir -p "$folder" 2>/dev/null || fail "$folder cannot be made: set XDG_CACHE_HOME to a folder that can be written"
  # One builder at a time; whoever waited finds the result.
  exec 9>"$root/.helm.lock"
  flock 9
  if [[ ! -x $folder/helm ]]; then
    echo "building Helm $version: once, 2 to 4 minutes on 2 cores" >&2
    cd "$module"
    export GOWORK=off CGO_ENABLED=0 GOFLAGS="-mod=readonly -trimpath -buildvcs=false"
    go build -ldflags "$flags" -o "$folder/helm.new" helm.sh/helm/v3/cmd/helm \
      >"$folder/build.log" 2>&1 9>&- || {
      tail -n 5 "$folder/build.log" >&2
      fail "Helm $version does not build: the lines above are the end of $folder/build.log (it takes a network, or a GOPROXY that can be reached)"
    }
    mv "$folder/helm.new" "$folder/helm"
  fi
fi
echo "$folder/helm"
