#!/usr/bin/env bash
# Prints what is in the image, as SPDX 2.3: the crates that are compiled into the programs, the Go modules that Helm is made of, and the
# Debian packages.
#
#   manifests/image/sbom.sh NAME VERSION DIGEST TIME PACKAGES HELM
#
# PACKAGES is a file with the names of Debian packages, one a line, and HELM the program. Called by build.sh.
set -euo pipefail

readonly name=$1 version=$2 digest=$3 created=$4 packages=$5 helm=$6
sources="$(cd "$(dirname "$0")/../.." && pwd)"
readonly sources

# Lines NAME|VERSION|LICENCE of the crates that the packages with the programs are made of. The tree is that of the whole workspace,
# because that is how it is built: features that another member asks for bring their crates into these programs too. Macros
# run in the compiler and stay outside. A subtree is printed once; later mentions of its root have no children.
crates() {
  cargo tree --manifest-path "$sources/Cargo.toml" --locked --workspace --edges normal,no-proc-macro --prefix depth --format '|{p}|{l}' |
    sed 's/ (\*)$//' | awk -F'|' '
      NF < 3 { next }
      {
        split($2, words, " ")
        crate = words[1] "|" substr(words[2], 2)
        if ($3 != "") licence[crate] = $3
        at[$1] = crate
        if ($1 > 0) children[at[$1 - 1]] = children[at[$1 - 1]] "\n" crate
        else if (words[1] ~ /^rukpak-(controller|platform|webhook)$/) queue[++last] = crate
      }
      END {
        for (first = 1; first <= last; first++) {
          crate = queue[first]
          if (crate in seen) continue
          seen[crate] = 1
          print crate "|" licence[crate]
          count = split(children[crate], list, "\n")
          for (i = 1; i <= count; i++) if (list[i] != "") queue[++last] = list[i]
        }
      }' | LC_ALL=C sort
}

# Lines NAME|VERSION|SHA-256 of the crates that come from a registry.
checksums() {
  awk -F' = ' '{ gsub(/"/, "", $2) } $1 == "name" { name = $2 } $1 == "version" { version = $2 }
    $1 == "checksum" { print name "|" version "|" $2 }' "$sources/Cargo.lock"
}

# Lines MODULE|VERSION, as Go writes them into a program; only Go reads them.
modules() {
  PATH="$PATH:/usr/local/go/bin:/usr/lib/go/bin" go version -m "$helm" | awk '$1 == "dep" { print $2 "|" $3 }' | LC_ALL=C sort
}

debian() {
  local package
  while read -r package; do
    # shellcheck disable=SC2016 # the fields are dpkg-query's
    dpkg-query -W -f='${Package}|${Version}|${Architecture}|${source:Package}\n' "$package" | head -n 1
  done <"$packages"
}

rows() { jq -R 'split("|")' | jq -cs .; }

jq -n --arg name "$name" --arg version "$version" --arg digest "$digest" --arg created "$created" \
  --argjson crates "$(crates | rows)" --argjson sums "$(checksums | rows)" --argjson debian "$(debian | rows)" \
  --argjson modules "$(modules | rows)" '
  ($sums | map({ key: "\(.[0]) \(.[1])", value: .[2] }) | from_entries) as $sum
  | def id: gsub("[^A-Za-z0-9.-]"; "-");
    def about($id; $name; $version; $licence; $purl): {
      SPDXID: $id, name: $name, versionInfo: $version, downloadLocation: "NOASSERTION", filesAnalyzed: false,
      licenseConcluded: "NOASSERTION", licenseDeclared: $licence, copyrightText: "NOASSERTION",
      externalRefs: [{ referenceCategory: "PACKAGE-MANAGER", referenceType: "purl", referenceLocator: $purl }]
    };
    about("SPDXRef-image"; $name; $version; "Apache-2.0"; "pkg:oci/rukpak@\($digest | @uri)")
      + { primaryPackagePurpose: "CONTAINER", checksums: [{ algorithm: "SHA256", checksumValue: ($digest | sub("sha256:"; "")) }] }
  | . as $image
  | [$crates[] | . as [$crate, $at, $licence]
      | about("SPDXRef-crate-\("\($crate)-\($at)" | id)"; $crate; $at;
          (if $licence == "" then "NOASSERTION" else $licence | gsub(" */ *"; " OR ") end); "pkg:cargo/\($crate)@\($at | @uri)")
        + (if $sum["\($crate) \($at)"] then { checksums: [{ algorithm: "SHA256", checksumValue: $sum["\($crate) \($at)"] }] } else {} end)]
    as $crates
  | [$modules[] | . as [$path, $at]
      | about("SPDXRef-go-\("\($path)-\($at)" | id)"; $path; $at; "NOASSERTION"; "pkg:golang/\($path)@\($at | @uri)")]
    as $modules
  | [$debian[] | . as [$package, $at, $architecture, $source]
      | about("SPDXRef-deb-\($package | id)"; $package; $at; "NOASSERTION";
          "pkg:deb/debian/\($package)@\($at | @uri)?arch=\($architecture)")
        + { sourceInfo: "built from Debian source package \($source); its licence is in /usr/share/doc/\($package)/copyright" }]
    as $libraries
  | {
      spdxVersion: "SPDX-2.3", dataLicense: "CC0-1.0", SPDXID: "SPDXRef-DOCUMENT", name: "rukpak-\($version)",
      documentNamespace: "https://spdx.org/spdxdocs/rukpak-\($version)-\($digest | sub("sha256:"; ""))",
      creationInfo: { created: $created, creators: ["Tool: manifests/image/sbom.sh"] },
      packages: ([$image] + $crates + $modules + $libraries),
      relationships: ([{ spdxElementId: "SPDXRef-DOCUMENT", relationshipType: "DESCRIBES", relatedSpdxElement: "SPDXRef-image" }]
        + [($crates + $modules + $libraries)[] | { spdxElementId: "SPDXRef-image", relationshipType: "CONTAINS", relatedSpdxElement: .SPDXID }])
    }'
