#!/usr/bin/env bash
# Writes a Go module that builds the programs of one version of Kubernetes, and the etcd which that version is built against.
#
#   tests/tools/kubernetes/module.sh FOLDER VERSION
#
# To move the versions that are tested: `module.sh tests/tools/kubernetes/newest 1.38.0`, and check in what it writes. Needs Go and a
# network.
set -euo pipefail

(($# == 2)) || { sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 2; }
mkdir -p "$1"
cd "$1"
version=v${2#v}
export GOWORK=off GOFLAGS=-mod=mod

# Its own go.mod names the versions of all it needs, but its staging modules by folders of its repository: they are published too.
answer=$(go mod download -json "k8s.io/kubernetes@$version") || {
  sed -n 's/\\"/"/g; s/\\[nt]/ /g; s/^\t"Error": "\(.*\)",*$/\1/p' <<<"$answer" >&2 # all on stdout, whatever happens
  exit 1
}
theirs=$(sed -n 's/^\t"GoMod": "\(.*\)",*$/\1/p' <<<"$answer")
etcd=$(sed -n 's|.*go.etcd.io/etcd/client/v3 \(v[^ ]*\).*|\1|p' "$theirs" | head -n 1)
{
  echo "module rukpak-rs/tests/tools/kubernetes"
  echo
  sed -n '/^go /p; /^godebug/p' "$theirs"
  echo
  echo "replace ("
  sed -n "s|^[[:space:]]*\(k8s.io/[a-z-]*\) => ./staging.*|\t\1 => \1 v0.${version#v1.}|p" "$theirs"
  echo ")"
} >go.mod
rm -f go.sum
go mod edit "-require=k8s.io/kubernetes@$version" "-require=go.etcd.io/etcd/server/v3@$etcd" -tool=go.etcd.io/etcd/server/v3
for program in kube-apiserver kube-controller-manager kubectl kubelet kube-proxy kube-scheduler; do
  go mod edit "-tool=k8s.io/kubernetes/cmd/$program"
done
go mod tidy
