#!/bin/sh
# Writes what is rendered from the overlays: install.yaml, install-platform.yaml, install-olm.yaml, install-olmv0.yaml, and openshift/ with one object a file.
# Needs kustomize or kubectl; tests compare the result, so nothing else does.
set -eu
cd "$(dirname "$0")"
build() {
    if command -v kustomize >/dev/null; then kustomize build "$1"; else kubectl kustomize "$1"; fi
}
single() {
    rendered=$(build "$1")
    {
        echo "# Rendered from $1 by render.sh; do not edit."
        printf "%s\n" "$rendered" # echo of some shells eats backslashes
    } >"$2"
}
single overlays/self-signed install.yaml
single overlays/platform install-platform.yaml
single overlays/olm install-olm.yaml
single overlays/olmv0 install-olmv0.yaml

# The number in the name is an order that suits; none is needed.
rendered=$(build overlays/openshift)
mkdir -p openshift
rm -f openshift/0000_50_platform-operators_*.yaml
printf "%s\n" "$rendered" | awk '
    BEGIN {
        split("Namespace CustomResourceDefinition ServiceAccount ClusterRole Role ClusterRoleBinding RoleBinding " \
              "Service Deployment ClusterOperator ValidatingWebhookConfiguration", kinds, " ")
        split("00 01 02 03 03 04 04 05 06 07 08", orders, " ")
        for (i in kinds) order[kinds[i]] = orders[i]
    }
    function flush() {
        if (text == "") return
        if (!(kind in order)) { print "render.sh: no place for kind " kind > "/dev/stderr"; failed = 1; exit 1 }
        sub(/^platform-operators-/, "", name)
        file = "openshift/0000_50_platform-operators_" order[kind] "_" tolower(kind) "_" name ".yaml"
        printf "# Rendered from overlays/openshift by render.sh; do not edit.\n%s", text > file
        close(file)
        text = ""
    }
    $0 == "---" { flush(); next }
    /^[a-z]/ { part = $1 }
    /^kind: / { kind = $2 }
    part == "metadata:" && /^  name: / { name = $2 }
    { text = text $0 "\n" }
    END { if (!failed) flush() }
'
