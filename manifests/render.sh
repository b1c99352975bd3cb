#!/bin/sh
# Writes install.yaml: the self-signed overlay, rendered. Needs kubectl or kustomize; a test compares the result, so
# nothing else does.
set -eu
cd "$(dirname "$0")"
build() {
    if command -v kustomize >/dev/null; then kustomize build "$1"; else kubectl kustomize "$1"; fi
}
rendered=$(build overlays/self-signed)
{
    echo "# Rendered from overlays/self-signed by render.sh; do not edit."
    echo "$rendered"
} >install.yaml
