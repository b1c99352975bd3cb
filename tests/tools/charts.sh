#!/usr/bin/env bash
# Prints the folder that holds the published charts of charts.txt, each in MODULE@VERSION/FOLDER. They are data in Go modules, which are
# fetched once (50 MB, half a minute) and checked against the sums in that list. Progress goes to stderr.
#
#   tests/tools/charts.sh
#
# To add a chart: its folder below the module in charts.txt. To move a module: the version; the sum that Go has is told then.
set -euo pipefail

tools="$(cd "$(dirname "$0")" && pwd)"
readonly tools list="$tools/charts.txt"
fail() { echo "error: $*" >&2; exit 2; }

[[ -n ${XDG_CACHE_HOME:-${HOME:-}} ]] || fail "HOME is not set: set it, or XDG_CACHE_HOME, to where downloads are kept"
readonly root="${XDG_CACHE_HOME:-${HOME:-}/.cache}/rukpak-rs"
# Another list is another folder.
recipe=$(sha256sum <"$list")
readonly recipe folder="$root/charts-${recipe:0:8}"

fetch() {
  export PATH="$PATH:/usr/local/go/bin:/usr/lib/go/bin"
  command -v go >/dev/null || fail "Go is missing, which fetches charts: install Go 1.21 or newer"
  work=$(mktemp -d "$root/charts.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  local modules module version sum path had
  modules=$(sed -n 's/^\([^# ][^ ]*\) \([^ ]*\) .*/\1@\2/p' "$list")
  echo "fetching $(wc -l <<<"$modules") Go modules with charts (once)" >&2
  # The sums are here, so no database of them is asked; and nothing is built, so no Go is too old.
  export GOMODCACHE="$work/modules" GOFLAGS=-modcacherw GOSUMDB=off GOTOOLCHAIN=local GOWORK=off
  # shellcheck disable=SC2086 # one argument each
  (cd "$work" && go mod download $modules) >"$work/log" 2>&1 || true # said below, by module

  while read -r module version sum; do
    case $module in
      "" | "#"*) continue ;;
    esac
    if [[ $sum == h1:* ]]; then
      path=$GOMODCACHE/$module@$version
      [[ -d $path ]] || fail "$module $version cannot be fetched: $(grep -m 1 -F "$module" "$work/log" || tail -n 1 "$work/log") (it takes a network, or a GOPROXY that can be reached)"
      had=$(<"$GOMODCACHE/cache/download/$module/@v/$version.ziphash")
      [[ $had == "$sum" ]] || fail "$module $version is $had, and charts.txt has $sum"
      continue
    fi
    # A folder of the module above.
    [[ -f $path/$module/Chart.yaml ]] || fail "${path#"$GOMODCACHE/"} has no chart in $module"
    had=$work/charts/${path#"$GOMODCACHE/"}/$module
    [[ ! -d $had ]] || continue # in the folder of another chart
    mkdir -p "$(dirname "$had")"
    cp -R "$path/$module" "$had"
  done <"$list"
  mv "$work/charts" "$folder"
}

if [[ ! -d $folder ]]; then
  mkdir -p "$root" 2>/dev/null || fail "$root cannot be made: set XDG_CACHE_HOME to a folder that can be written"
  # One at a time; whoever waited finds the result.
  exec 9>"$root/.charts.lock"
  flock 9
  [[ -d $folder ]] || (fetch)
fi
echo "$folder"
