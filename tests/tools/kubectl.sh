#!/usr/bin/env bash
# Prints the path of kubectl: $KUBECTL, or that of the control plane (control-plane.sh).
set -euo pipefail

if [[ -n ${KUBECTL:-} ]]; then
  command -v "$KUBECTL" || { echo "error: there is no program KUBECTL=$KUBECTL" >&2; exit 2; }
  exit
fi
folder=$("$(dirname "$0")/control-plane.sh" kubectl)
echo "$folder/kubectl"
