#!/usr/bin/env bash
# Runs the image and the manifests on a real node of its own on this machine: containerd, runc, kubelet, kube-proxy, kube-scheduler.
#
#   tests/tools/node.sh IMAGE MANIFESTS [BEFORE]     (make node-test)
#   tests/tools/node.sh --check                      only whether this machine can do it
#
# IMAGE is the folder that `make image` wrote to, MANIFESTS the one of `make manifests` with that image, BEFORE that of
# tests/tools/image-before.sh: image and manifests to upgrade from. All of it runs in namespaces
# of its own (network, mounts, processes, names, cgroups) and ends with them; no address, rule, mount or setting of the machine changes.
# Exit code 77: this machine cannot do it, and why.
set -euo pipefail

here="$(cd "$(dirname "$0")" && pwd)"
readonly here
# What a kubelet and runc want to count and limit by.
readonly controllers=(cpu cpuacct cpuset memory devices freezer blkio pids)
readonly namespaces=(--net --mount --pid --uts --ipc --cgroup --fork --kill-child --mount-proc)

cannot() { echo "node-test cannot run here: $*" >&2; exit 77; }

# --- Inside the namespaces -----------------------------------------------------------------------------------------------------

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
  umount --recursive --lazy /sys/fs/cgroup
  mount -t sysfs sysfs /sys
  mount -t tmpfs cgroups /sys/fs/cgroup
  local controller
  for controller in "${controllers[@]}"; do
    mkdir "/sys/fs/cgroup/$controller"
    mount -t cgroup -o "$controller" cgroup "/sys/fs/cgroup/$controller" || cannot "the cgroup controller $controller cannot be mounted"
  done
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

if [[ ${1:-} == --inside ]]; then
  shift
  inside "$@"
  exit
fi

# --- Outside -------------------------------------------------------------------------------------------------------------------

(($# == 2 || $# == 3)) || [[ $# == 1 && $1 == --check ]] || { sed -n '2,10s/^# \{0,1\}//p' "$0" >&2; exit 2; }

((EUID == 0)) || cannot "containers, mounts and network namespaces need root"
said=$(unshare "${namespaces[@]}" true 2>&1) || cannot "no namespaces of its own: $said"
declare -A cgroup=()
while IFS=: read -r _ names path; do
  for controller in "${controllers[@]}"; do
    [[ ,$names, != *",$controller,"* || ! -w /sys/fs/cgroup/$names$path ]] || cgroup[$controller]=/sys/fs/cgroup/$names$path
  done
done </proc/self/cgroup
missing=()
for controller in "${controllers[@]}"; do [[ -n ${cgroup[$controller]:-} ]] || missing+=("$controller"); done
((${#missing[@]} == 0)) ||
  cannot "it needs cgroups of version 1 that can be written (Kubernetes 1.20 does not know version 2 well); missing: ${missing[*]}"

base=$(mktemp -d "${TMPDIR:-/var/tmp}/rukpak-node.XXXXXX")
own=()
# shellcheck disable=SC2317 # called by the trap
clean_up() {
  # Everything in the namespaces has ended with their first process. A cgroup is removed when the last of them has been reaped.
  local folder tries
  for folder in "${own[@]}"; do
    for ((tries = 0; tries < 100; tries++)); do
      find "$folder" -depth -type d -exec rmdir {} + 2>/dev/null && break
      sleep 0.1
    done
  done
  rm -rf --one-file-system "$base"
}
trap clean_up EXIT
trap 'exit 130' INT TERM HUP

"$here/apt-packages.sh" --node
if [[ $1 == --check ]]; then
  result=0
  unshare "${namespaces[@]}" "$0" --inside "$base" true || result=$?
  exit "$result"
fi

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

for controller in "${controllers[@]}"; do
  folder=${cgroup[$controller]}/rukpak-node-$$
  [[ " ${own[*]} " != *" $folder "* ]] || continue
  mkdir "$folder"
  own+=("$folder")
  [[ $controller != cpuset ]] || for file in cpuset.cpus cpuset.mems; do cat "${cgroup[cpuset]}/$file" >"$folder/$file"; done
done

result=0
(
  for folder in "${own[@]}"; do echo "$BASHPID" >"$folder/cgroup.procs"; done
  KUBEBUILDER_ASSETS=$kubernetes exec unshare "${namespaces[@]}" "$0" --inside "$base" "$programs/node-test" \
    --image "$image" --manifests "$manifests" --kubernetes "$kubernetes" --kubectl "$kubectl" --pod "$base/pod" --folder "$base" "${before[@]}"
) </dev/null &
wait $! || result=$?
exit "$result"
