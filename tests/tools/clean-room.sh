#!/usr/bin/env bash
# Shows that `make demo` and `make test` work on a fresh machine: runs one of them in a minimal Debian 12 that has git, make,
# apt, ca-certificates and this machine's Rust toolchain, on a clone of what is committed here.
#
#   tests/tools/clean-room.sh [demo|test] [--kubernetes-cache] [--cargo-cache]
#
# --kubernetes-cache hands in this machine's build of kube-apiserver, which otherwise takes about 6 minutes in there.
# --cargo-cache shares ~/.cargo with the clean room, so that crates are not downloaded again. Without it cargo's home in there holds
# the programs and the settings (config.toml) alone, as on a machine that has never built anything.
# Needs root, and about 12 GB in /var/tmp (TMPDIR says otherwise), all of it given back at the end.
set -euo pipefail

readonly suite=bookworm
target=demo
hand_in_cache=
share_cargo=
for argument in "$@"; do
  case $argument in
    demo | test) target=$argument ;;
    --kubernetes-cache) hand_in_cache=yes ;;
    --cargo-cache) share_cargo=yes ;;
    *) sed -n '2,10s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
  esac
done

here="$(cd "$(dirname "$0")/../.." && pwd)"
cargo_home="${CARGO_HOME:-$HOME/.cargo}"
rustup_home="${RUSTUP_HOME:-$HOME/.rustup}"
cache="${XDG_CACHE_HOME:-$HOME/.cache}/rukpak-rs"
started=$SECONDS
say() { printf '[%4ds] %s\n' "$((SECONDS - started))" "$*" >&2; }
fail() { say "error: $*"; exit 2; }

((EUID == 0)) || fail "a root file system is made by root: run this with sudo, HOME kept"
[[ -x $cargo_home/bin/cargo && -d $rustup_home ]] || fail "no Rust toolchain in $cargo_home and $rustup_home"
if ! command -v mmdebstrap >/dev/null; then
  say "installing mmdebstrap"
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends mmdebstrap >/dev/null
fi

base="$(mktemp -d "${TMPDIR:-/var/tmp}/rukpak-clean-room.XXXXXX")"
readonly root="$base/root"
# Every mount is made in a mount namespace of its own below, which ends with its processes: nothing is mounted here.
trap 'say "removing $base"; rm -rf --one-file-system "$base"' EXIT

# The archives this machine installs from, asked for the suite wanted here.
host_suite="$(. /etc/os-release && echo "$VERSION_CODENAME")"
apt-get indextargets --format '$(ORIGIN)|$(SITE)|$(RELEASE)|$(COMPONENT)' 'Created-By: Packages' |
  while IFS='|' read -r origin site release component; do
    [[ $origin == Debian && $component == main ]] || continue
    echo "deb $site ${release/#$host_suite/$suite} $component"
  done | sort -u >"$base/sources.list"
[[ -s $base/sources.list ]] || fail "apt knows no Debian archive; run 'apt-get update' and try again"
# How this machine reaches them: proxies and the like.
apt-config dump | grep -E '^Acquire::(https?::|Check-|Retries)' >"$base/apt.conf" || true

say "making a minimal Debian 12 in $root"
mmdebstrap --quiet --mode=root --variant=apt --include=ca-certificates,git,make --aptopt="$base/apt.conf" "$suite" "$root" \
  "$base/sources.list"
cp "$base/apt.conf" "$root/etc/apt/apt.conf.d/99host"
cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
if compgen -G '/usr/local/share/ca-certificates/*.crt' >/dev/null; then
  cp /usr/local/share/ca-certificates/*.crt "$root/usr/local/share/ca-certificates/"
  chroot "$root" update-ca-certificates >/dev/null
fi
say "it has $(chroot "$root" dpkg-query -W | wc -l) packages; no C compiler, no curl, no etcd, no Kubernetes"

git clone --quiet --no-hardlinks "$here" "$root/root/project"
say "commit $(git -C "$root/root/project" log -1 --format='%h %s')"
mkdir -p "$root/root/.cargo" "$root/root/.rustup"
if [[ -z $share_cargo ]]; then
  cp -a "$cargo_home/bin" "$root/root/.cargo/" # links to rustup, mostly
  for settings in config.toml config; do
    [[ ! -f $cargo_home/$settings ]] || cp -L "$cargo_home/$settings" "$root/root/.cargo/"
  done
fi
if [[ -n $hand_in_cache ]]; then
  [[ -d $cache ]] || fail "there is no cache to hand in: $cache"
  mkdir -p "$root/root/.cache"
  cp -r "$cache" "$root/root/.cache/rukpak-rs"
fi

environment=(HOME=/root PATH=/root/.cargo/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 "TERM=${TERM:-dumb}")
while IFS= read -r variable; do
  environment+=("$variable")
done < <(env | grep -E '^(https?_proxy|HTTPS?_PROXY|no_proxy|NO_PROXY|CARGO_(HTTP|NET|REGISTRIES|SOURCE)_[A-Z_]+|RUSTUP_TOOLCHAIN|RUSTUP_AUTO_INSTALL)=' || true)

say "make $target in the clean room"
result=0
unshare --mount --pid --fork --kill-child --propagation private bash -euc '
  root=$1 cargo_home=$2 rustup_home=$3 target=$4 share_cargo=$5; shift 5
  mount -t proc proc "$root/proc"
  mount --rbind /sys "$root/sys"
  mount --rbind /dev "$root/dev"
  [[ -z $share_cargo ]] || mount --bind "$cargo_home" "$root/root/.cargo"
  mount --bind "$rustup_home" "$root/root/.rustup"
  exec chroot "$root" /usr/bin/env -i "$@" make -C /root/project --no-print-directory "$target"
' clean-room "$root" "$cargo_home" "$rustup_home" "$target" "$share_cargo" "${environment[@]}" </dev/null || result=$?
say "make $target ended with $result"
exit "$result"
