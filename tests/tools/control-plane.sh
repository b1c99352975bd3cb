#!/usr/bin/env bash
# Prints the folder that holds the programs of a control plane, building from Go modules what is not there yet. Progress goes to
# stderr, the folder to stdout.
#
#   tests/tools/control-plane.sh [PROGRAM...]
#
# PROGRAM: kube-apiserver kube-controller-manager kubectl etcd (these unless others are named), kubelet kube-proxy kube-scheduler.
#
# KUBERNETES=newest|oldest|1.33|1.33.4 chooses the version: newest and oldest are those of the go.mod files in tests/tools/kubernetes,
# of another minor it is the last patch. KUBEBUILDER_ASSETS=DIR (the convention of envtest) brings programs along instead.
set -euo pipefail

tools="$(cd "$(dirname "$0")" && pwd)"
started=$SECONDS
say() { printf '[%3ds] %s\n' "$((SECONDS - started))" "$*" >&2; }
fail() { echo "error: $*" >&2; exit 2; }

[[ -n ${XDG_CACHE_HOME:-${HOME:-}} ]] || fail "HOME is not set: set it, or XDG_CACHE_HOME, to where builds are kept"
readonly tools root="${XDG_CACHE_HOME:-${HOME:-}/.cache}/rukpak-rs"
programs=("$@")
((${#programs[@]})) || programs=(kube-apiserver kube-controller-manager kubectl etcd)
readonly every=(kube-apiserver kube-controller-manager kubectl etcd kubelet kube-proxy kube-scheduler)
for program in "${programs[@]}"; do
  [[ " ${every[*]} " == *" $program "* ]] || fail "'$program' is no program of a control plane; there are: ${every[*]}"
done

make_folder() { mkdir -p "$1" 2>/dev/null || fail "$1 cannot be made: set XDG_CACHE_HOME to a folder that can be written"; }

# What whoever cannot fetch can do.
readonly reach="it takes a network, or a GOPROXY that can be reached"

# The ones of these programs that a folder lacks.
lacking() {
  local folder=$1 program; shift
  for program in "$@"; do [[ -x $folder/$program ]] || printf '%s\n' "$program"; done
}

# The version of Kubernetes that a go.mod names: 1.37.2.
version_of() { sed -n 's|^\(require \)\{0,1\}[[:space:]]*k8s.io/kubernetes v\([0-9.]*\)\( // indirect\)\{0,1\}$|\2|p' "$1/go.mod"; }

# Go, new enough to fetch the release of itself that a module asks for.
find_go() {
  export PATH="$PATH:/usr/local/go/bin:/usr/lib/go/bin"
  command -v go >/dev/null || fail "Go is missing, which builds Kubernetes: install Go 1.21 or newer, or set KUBEBUILDER_ASSETS to a folder with ${programs[*]}"
  local release
  release=$(cd / && GOTOOLCHAIN=local go env GOVERSION 2>&1) || fail "$(command -v go) does not work (${release##*$'\n'}): install Go 1.21 or newer"
  [[ ! $release =~ ^go1\.([0-9]+) ]] || ((BASH_REMATCH[1] >= 21)) || fail "$release is too old to build Kubernetes: install Go 1.21 or newer"
}

# Sets `module` to the folder of the go.mod for a version, which it writes if it is none of those in the repository.
choose_module() {
  local wanted=$1 known
  for known in newest oldest; do
    module=$tools/kubernetes/$known
    [[ $wanted != "$known" && $(version_of "$module") != "$wanted" && $(version_of "$module") != "$wanted".* ]] || return 0
  done
  [[ $wanted =~ ^1\.[0-9]+(\.[0-9]+)?$ ]] || fail "KUBERNETES=$wanted is no version: newest, oldest, 1.33 or 1.33.4"
  module=$root/kubernetes-modules/$wanted
  [[ ! -s $module/go.sum ]] || return 0
  find_go
  local patch=$wanted listed
  if [[ $wanted != *.*.* ]]; then
    listed=$(cd / && go list -m -versions k8s.io/kubernetes 2>&1) || fail "Kubernetes $wanted cannot be looked up: ${listed##*$'\n'} ($reach)"
    patch=$(tr ' ' '\n' <<<"$listed" | sed -n "s/^v\(${wanted//./\\.}\.[0-9]*\)$/\1/p" | sort -V | tail -n 1)
    [[ -n $patch ]] ||
      fail "there is no Kubernetes $wanted; the last is $(tr ' ' '\n' <<<"$listed" | sed -n 's/^v\([0-9.]*\)$/\1/p' | sort -V | tail -n 1)"
  fi
  say "writing a Go module for Kubernetes $patch"
  make_folder "$root/kubernetes-modules"
  local work log="$root/kubernetes-modules/$wanted.log"
  work=$(mktemp -d "$root/kubernetes-modules/new.XXXXXX")
  if ! "$tools/kubernetes/module.sh" "$work" "$patch" >"$log" 2>&1; then
    rm -rf "$work"
    fail "no Go module for Kubernetes $patch: $(tail -n 1 "$log") (is there such a version? $reach; $log)"
  fi
  rm -rf "$module"
  mv "$work" "$module"
}

# Builds from `module` what `folder` lacks of `programs`.
build() {
  local version packages=() program missing release listed count log=$folder/build.log compiled fresh
  version=$(version_of "$module")
  mapfile -t missing < <(lacking "$folder" "${programs[@]}")
  find_go
  cd "$module"
  export GOWORK=off CGO_ENABLED=0 GOFLAGS="-mod=readonly -trimpath -buildvcs=false"
  # `go env` is content with any Go.
  release=$(go list -m 2>&1) || fail "Kubernetes $version needs a newer Go: ${release##*$'\n'} (install it, or let Go fetch it: GOTOOLCHAIN=auto, and a network)"
  release=$(go env GOVERSION)
  for program in "${missing[@]}"; do
    case $program in
      etcd) packages+=(go.etcd.io/etcd/server/v3) ;;
      *) packages+=("k8s.io/kubernetes/cmd/$program") ;;
    esac
  done
  say "building ${missing[*]} of Kubernetes $version with $release: once, 4 to 10 minutes on 2 cores"
  say "fetching modules"
  listed=$(go list -deps -f '{{.ImportPath}}' "${packages[@]}" 2>"$log") ||
    fail "the modules of Kubernetes $version cannot be fetched: $(grep -v '^go: downloading' "$log" | tail -n 1) ($reach; $log)"
  count=$(wc -l <<<"$listed")

  fresh=$(mktemp -d "$folder/new.XXXXXX")
  local variable=k8s.io/component-base/version minor=${version#1.}
  local stamp="-s -w -X $variable.gitVersion=v$version -X $variable.gitMajor=1 -X $variable.gitMinor=${minor%%.*} -X $variable.gitTreeState=clean"
  go build -v -ldflags "$stamp" -o "$fresh/" "${packages[@]}" >"$log" 2>&1 9>&- &
  local compiler=$!
  # shellcheck disable=SC2064 # these very values
  trap "kill $compiler 2>/dev/null; rm -rf '$fresh'" EXIT
  while kill -0 "$compiler" 2>/dev/null; do
    sleep 15 >/dev/null 2>&1 9>&- & # the only clock here: a line every 15 s, for whoever watches
    wait -n "$compiler" $! || true
    compiled=$(wc -l <"$log")
    ! kill -0 "$compiler" 2>/dev/null || say "compiled $compiled packages of $count$( ((compiled < count - 20)) || echo '; linking')"
  done
  wait "$compiler" || { tail -n 20 "$log" >&2; fail "Kubernetes $version does not build: the lines above are the end of $log"; }
  [[ ! -e $fresh/server ]] || mv "$fresh/server" "$fresh/etcd"
  mv "$fresh"/* "$folder/"
  rm -rf "$fresh"
  trap - EXIT
  say "built: $folder"
}

# Sets `folder` to the one with our build of the version that is asked for.
provide() {
  choose_module "$1"
  # What is built otherwise is another folder.
  local recipe
  recipe=$(cat "$module/go.mod" "$module/go.sum" | sha256sum)
  folder=$root/kubernetes-$(version_of "$module")-${recipe:0:8}
  [[ -n $(lacking "$folder" "${programs[@]}") ]] || return 0
  make_folder "$folder"
  # One builder at a time; whoever waited finds the result.
  exec 9>"$root/.kubernetes.lock"
  flock --nonblock 9 || { say "another process builds Kubernetes; waiting for it"; flock 9; }
  [[ -z $(lacking "$folder" "${programs[@]}") ]] || (build)
  flock --unlock 9
}

if [[ -z ${KUBEBUILDER_ASSETS:-} ]]; then
  provide "${KUBERNETES:-newest}"
  echo "$folder"
  exit
fi

[[ -z ${KUBERNETES:-} ]] || fail "KUBEBUILDER_ASSETS and KUBERNETES are both set: unset one of them"
[[ -d $KUBEBUILDER_ASSETS ]] || fail "KUBEBUILDER_ASSETS=$KUBEBUILDER_ASSETS is no folder: name one with ${programs[*]}, or unset it to have them built"
KUBEBUILDER_ASSETS=$(realpath "$KUBEBUILDER_ASSETS") # whoever starts them is in another folder
mapfile -t missing < <(lacking "$KUBEBUILDER_ASSETS" "${programs[@]}")
case ${missing[*]} in
  "") folder=$KUBEBUILDER_ASSETS ;;
  kube-controller-manager)
    # envtest has all but that one: it is built, of the same minor.
    said=$("$KUBEBUILDER_ASSETS/kube-apiserver" --version 2>&1) || said+=" (exit code $?)"
    [[ $said =~ Kubernetes\ v(1\.[0-9]+) ]] ||
      fail "$KUBEBUILDER_ASSETS/kube-apiserver does not tell its version: ${said##*$'\n'}; replace it, or unset KUBEBUILDER_ASSETS to have all built"
    of_theirs=("${programs[@]}")
    programs=(kube-controller-manager)
    provide "${BASH_REMATCH[1]}"
    built=$folder
    folder=$root/assets-$(sha256sum <<<"$KUBEBUILDER_ASSETS $built" | head -c 8)
    mkdir -p "$folder"
    for program in "${of_theirs[@]}"; do ln -sfn "$KUBEBUILDER_ASSETS/$program" "$folder/$program"; done
    ln -sfn "$built/kube-controller-manager" "$folder/kube-controller-manager"
    ;;
  *) fail "KUBEBUILDER_ASSETS=$KUBEBUILDER_ASSETS lacks ${missing[*]}: complete it, or unset it to have them built" ;;
esac
echo "$folder"
