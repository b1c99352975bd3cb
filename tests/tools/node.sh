#!/usr/bin/env bash
# Runs the image and the manifests on a real node of its own on this machine: containerd, runc, kubelet, kube-proxy, kube-scheduler.
#
#   tests/tools/node.sh IMAGE MANIFESTS [BEFORE]     (make node-test)
#   tests/tools/node.sh --check                      only whether this machine can do it
#
# IMAGE is the folder that `make image` wrote to, MANIFESTS the one of `make manifests` with that image, BEFORE that of
# tests/tools/image-before.sh: image and manifests to upgrade from. All of it runs in namespaces
# of its own (network, mounts, processes, names, cgroups) and ends with them; no address, rule, mount or setting of the machine changes.
# It takes root, and cgroups of version 2 or 1. Exit code 77: this machine cannot do it, and why.
set -euo pipefail

here="$(cd "$(dirname "$0")" && pwd)"
readonly here
readonly namespaces=(--net --mount --pid --uts --ipc --fork --kill-child --mount-proc)
readonly cgroups=/sys/fs/cgroup
# What a kubelet and runc want to count and limit by. Version 2 has devices and freezer without a controller.
if [[ $(stat --file-system --format=%T "$cgroups" 2>/dev/null) == cgroup2fs ]]; then
  readonly version=2 controllers=(cpu cpuset memory pids) optional=(io hugetlb)
else
  readonly version=1 controllers=(cpu cpuacct cpuset memory devices freezer blkio pids)
fi

cannot() { echo "node-test cannot run here: $*" >&2; exit 77; }

# Has a cgroup of version 2 hand its controllers on to those below it. `handed_on` gets those that it did not before.
handed_on=()
hand_on() {
  local controller
  for controller in "${controllers[@]}" "${optional[@]}"; do
    [[ " $(<"$1/cgroup.controllers") " == *" $controller "* && " $(<"$1/cgroup.subtree_control") " != *" $controller "* ]] || continue
    echo "+$controller" 2>/dev/null >"$1/cgroup.subtree_control" || return
    handed_on+=("$controller")
  done
}

# --- In the cgroup namespace, whose roots are cgroups of our own ----------------------------------------------------------------

below() {
  local folder=$1; shift
  if ((version == 2)); then
    # A cgroup with processes cannot hand controllers on: they all go to one below it, the waiting unshare included.
    mkdir "$folder/init"
    echo $$ >"$folder/init/cgroup.procs"
    hand_on "$folder" || cannot "its cgroup $folder hands no controllers on"
  fi
  exec unshare "${namespaces[@]}" "$0" --inside "$@"
}

# --- In the other namespaces too ------------------------------------------------------------------------------------------------

# Shows a program the value that it wants of a setting, in place of writing it: these settings belong to the whole machine.
pretend() {
  [[ -e $1 && $(<"$1") != "$2" ]] || return 0
  echo "$2" >"$base/settings/${1//\//_}"
  mount --bind "$base/settings/${1//\//_}" "$1"
}

inside() {
  base=$1
  mount --make-rprivate /
  hostname node
  ip link set lo up
  # The node's address is on a link, because a kubelet refuses one of loopback. Nothing is at its other end.
  ip link add node0 type veth peer name node1 || cannot "no veth links"
  ip address add 10.99.0.1/24 dev node0
  ip link set node0 up
  ip link set node1 up
  ip route add default via 10.99.0.2
  ip link add probe0 type bridge || cannot "no network bridges"
  ip link delete probe0
  echo 1 >/proc/sys/net/ipv4/ip_forward
  iptables -t nat -A OUTPUT -m comment --comment probe -m addrtype --dst-type LOCAL -j RETURN ||
    cannot "iptables does not work, which kube-proxy makes Services of"
  iptables -t nat -F OUTPUT
  # The machine's own mounts of them would be found as well, and lead out of the namespace.
  umount --recursive --lazy "$cgroups"
  mount -t sysfs sysfs /sys
  if ((version == 2)); then
    mount -t cgroup2 cgroup2 "$cgroups" || cannot "cgroups of version 2 cannot be mounted"
  else
    mount -t tmpfs cgroups "$cgroups"
    local controller
    for controller in "${controllers[@]}"; do
      mkdir "$cgroups/$controller"
      mount -t cgroup -o "$controller" cgroup "$cgroups/$controller" || cannot "the cgroup controller $controller cannot be mounted"
    done
  fi
  mount -t tmpfs run /run
  mount -t tmpfs log /var/log # /var/log/pods is no setting of a kubelet
  mkdir -p "$base"/{probe/lower,probe/upper,probe/work,probe/all,settings}
  mount -t overlay overlay -o "lowerdir=$base/probe/lower,upperdir=$base/probe/upper,workdir=$base/probe/work" "$base/probe/all" ||
    cannot "no overlay file systems in $base (TMPDIR says where it is)"
  umount "$base/probe/all"
  pretend /proc/sys/vm/overcommit_memory 1
  pretend /proc/sys/vm/panic_on_oom 0
  pretend /proc/sys/kernel/panic 10
  pretend /proc/sys/kernel/panic_on_oops 1
  pretend /proc/sys/kernel/keys/root_maxkeys 1000000
  pretend /proc/sys/kernel/keys/root_maxbytes 25000000
  shift
  # Not exec: this shell stays process 1 and takes orphans in.
  "$@"
}

case ${1:-} in
  --below) shift; below "$@" ;;
  --inside) shift; inside "$@"; exit ;;
esac

# --- Outside -------------------------------------------------------------------------------------------------------------------

(($# == 2 || $# == 3)) || [[ $# == 1 && $1 == --check ]] || { sed -n '2,10s/^# \{0,1\}//p' "$0" >&2; exit 2; }

((EUID == 0)) || cannot "containers, mounts and network namespaces need root: run it with sudo, HOME kept"
said=$(unshare "${namespaces[@]}" --cgroup true 2>&1) || cannot "no namespaces of its own: $said"

base=$(mktemp -d "${TMPDIR:-/var/tmp}/rukpak-node.XXXXXX")
own=() # cgroups: one, or of version 1 one in each hierarchy
node=
# shellcheck disable=SC2317 # called by the trap
clean_up() {
  # Everything in the namespaces ends with their first process, and that with its parent. A cgroup is removed when the last of
  # them has been reaped.
  [[ -z $node ]] || { kill -KILL "$node"; wait "$node"; } 2>/dev/null || true
  local folder tries controller
  for folder in "${own[@]}"; do
    for ((tries = 0; tries < 100; tries++)); do
      find "$folder" -depth -type d -exec rmdir {} + 2>/dev/null && break
      sleep 0.1
    done
  done
  # As it was, unless somebody else has come to need it.
  for controller in "${handed_on[@]}"; do echo "-$controller" 2>/dev/null >"$cgroups/cgroup.subtree_control" || true; done
  rm -rf --one-file-system "$base"
}
trap clean_up EXIT
trap 'exit 130' INT TERM HUP

# Below our own cgroups. Those that share a hierarchy share its folder, which has all their names.
make_cgroups_1() {
  local names path folder controller file missing=" ${controllers[*]} "
  while IFS=: read -r _ names path; do
    folder=$cgroups/$names$path/rukpak-node-$$
    for controller in "${controllers[@]}"; do
      [[ ,$names, == *",$controller,"* && -w ${folder%/*} ]] || continue
      missing=${missing/ $controller / }
      [[ -d $folder ]] || { mkdir "$folder"; own+=("$folder"); }
      [[ $controller != cpuset ]] || for file in cpuset.cpus cpuset.mems; do cat "${folder%/*}/$file" >"$folder/$file"; done
    done
  done </proc/self/cgroup
  [[ -z ${missing// } ]] ||
    cannot "it needs cgroups that can be written, and of version 1 these are missing:${missing% }; boot with version 2 (systemd.unified_cgroup_hierarchy=1), or run it in a privileged container"
}

# Below the root: our own cgroup has processes, and cannot hand controllers on unless it is the root itself.
make_cgroups_2() {
  [[ -w $cgroups ]] || cannot "$cgroups cannot be written: run it on the machine itself, or in a privileged container"
  local controller missing=()
  for controller in "${controllers[@]}"; do [[ " $(<"$cgroups/cgroup.controllers") " == *" $controller "* ]] || missing+=("$controller"); done
  ((${#missing[@]} == 0)) ||
    cannot "$cgroups lacks the controllers ${missing[*]}: boot without cgroup_disable and without cgroups of version 1; in a container, enable them in cgroup.subtree_control of the cgroup above"
  # The root of a container is an ordinary cgroup.
  hand_on "$cgroups" ||
    cannot "$cgroups holds processes, so it hands no controllers on; move them first: mkdir $cgroups/init; xargs -n1 <$cgroups/cgroup.procs >$cgroups/init/cgroup.procs"
  own=("$cgroups/rukpak-node-$$")
  mkdir "${own[0]}"
}

# Runs a program on the node that is to be.
enter() {
  (
    for folder in "${own[@]}"; do echo "$BASHPID" >"$folder/cgroup.procs"; done
    exec unshare --cgroup "$0" --below "${own[0]}" "$base" "$@"
  ) </dev/null &
  node=$!
  local result=0
  wait "$node" || result=$?
  node=
  exit "$result"
}

"make_cgroups_$version"
"$here/apt-packages.sh" --node
[[ $1 != --check ]] || enter true

image=$(realpath "$1") manifests=$(realpath "$2")
before=()
[[ -z ${3:-} ]] || before=(--before "$(realpath "$3")")
[[ -f $image/rukpak.tar && -f $image/reference ]] || { echo "error: there is no image in $1: make image" >&2; exit 2; }
grep -q "image: $(<"$image/reference")\$" "$manifests/install-platform.yaml" || { echo "error: $2 does not name the image of $1: make manifests" >&2; exit 2; }
kubernetes=$("$here/control-plane.sh" kube-apiserver kube-controller-manager kubectl etcd kubelet kube-proxy kube-scheduler)
kubectl=$("$here/kubectl.sh")
programs=$(cd "$here/../.." && realpath "${CARGO_TARGET_DIR:-target}/debug")
[[ -x $programs/node-test ]] || { echo "error: $programs/node-test is not built: make node-test" >&2; exit 2; }
# Static, so that its image needs nothing else.
rustc --edition 2024 -O -C target-feature=+crt-static -C strip=symbols -o "$base/pod" "$here/../fixtures/node/pod.rs"

export KUBEBUILDER_ASSETS=$kubernetes
enter "$programs/node-test" --image "$image" --manifests "$manifests" --kubernetes "$kubernetes" --kubectl "$kubectl" \
  --pod "$base/pod" --folder "$base" "${before[@]}"
