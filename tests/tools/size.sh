#!/usr/bin/env bash
# Prints how large the project is: lines by kind, packages, flags, circles of imports, the largest files and functions.
set -euo pipefail
cd "$(dirname "$0")/../.."

# The paths of modules that are compiled for tests alone, without `.rs`.
mapfile -t test_modules < <(git ls-files -- '*.rs' | xargs awk '
  FNR == 1 { before = "" }
  before == "#[cfg(test)]" && /^(pub(\(.*\))? )?mod [a-z0-9_]+;$/ {
    folder = FILENAME
    sub(/(\/(lib|main|mod))?\.rs$/, "", folder)
    print folder "/" substr($NF, 1, length($NF) - 1)
  }
  { before = $0 }')

# A file's product code ends where a module of tests begins in it; `tests.rs`, files below `tests/` and test modules are tests.
count() {
  printf '%s\n' "${test_modules[@]}" | awk -v kind="$1" '
    FILENAME == "-" { modules[$0]; next }
    FNR == 1 {
      inline = 0
      before = ""
      beside = FILENAME ~ /(^|\/)tests(\.rs$|\/)/
      for (path = FILENAME; sub(/(\.rs|\/[^\/]*)$/, "", path);) beside = beside || path in modules
    }
    before == "#[cfg(test)]" && /^mod [a-z0-9_]+ \{$/ { inline = 1 }
    { before = $0 }
    { if (beside) sums["beside"]++; else if (inline) sums["inline"]++; else sums["product"]++ }
    /^ *\/\/[\/!]/ && !beside && !inline { sums["doc"]++ }
    END { print sums[kind] + 0 }' - "${@:2}"
}

# Words of documents: all, of them those of generated pages, and those of code, commands and their output elsewhere.
words() {
  mapfile -t written < <(git ls-files -- '*.md' | grep -v '^docs/\(api\|flags\)\.md$')
  all=$(git ls-files -- '*.md' | xargs cat | wc -w)
  own=$(cat "${written[@]}" | wc -w)
  code=$(awk 'FNR == 1 { on = 0 } /^ *```/ { on = !on; next } on { n += NF } END { print n + 0 }' "${written[@]}")
  echo "$all, $((all - own)) of them generated, $code in commands and their output"
}

rust() { git ls-files -- "$@" | grep '\.rs$'; }

echo "crate  product  doc comments  tests inside  tests beside"
total=0
for manifest in $(git ls-files -- 'crds/Cargo.toml' 'webhook/Cargo.toml' 'provisioners/*/Cargo.toml'); do
  folder="${manifest%/Cargo.toml}"
  mapfile -t files < <(rust "$folder")
  lines="$(count product "${files[@]}")"
  total=$((total + lines))
  echo "${folder##*/}  $lines  $(count doc "${files[@]}")  $(count inline "${files[@]}")  $(count beside "${files[@]}")"
done | sort -k2,2nr | column -t
mapfile -t product < <(rust crds webhook provisioners)
mapfile -t harness < <(rust tests/src docs/generator)
mapfile -t suites < <(rust tests/suite tests/repository tests/fuzz)
cat <<END

product lines                $(count product "${product[@]}")
tests in and beside crates   $(($(count inline "${product[@]}") + $(count beside "${product[@]}")))
test harness, suites         $(cat "${harness[@]}" | wc -l), $(cat "${suites[@]}" | wc -l)
words of documents           $(words)
packages in Cargo.lock       $(grep -c '^\[\[package\]\]' Cargo.lock)
flags of the servers         $(awk '/^## / { on = /Servers/ } on && /^\| `--/ { n++ } END { print n + 0 }' docs/flags.md)

END

# Files that import one another, however indirectly: `use crate::a::b` and `use super::c` lead to the deepest module that is a file.
echo "circles of imports (files in each)"
for folder in crds webhook provisioners/*/; do
  folder="${folder%/}"
  [ -d "$folder/src" ] || continue
  rust "$folder/src" | grep -v '/tests\(\.rs\|/\)' | sed "s|^$folder/src/||" | awk -v folder="$folder" '
    function module(file) { sub(/\.rs$/, "", file); sub(/^(lib|main)$/, "", file); return file }
    { files[module($0)] = $0 }
    END {
      for (from in files) {
        path = folder "/src/" files[from]
        while ((getline line < path) > 0) {
          if (line ~ /^#\[cfg\(test\)\]/) break
          while (match(line, /(crate|super(::super)*)::[a-z_:]+/)) {
            name = substr(line, RSTART, RLENGTH); line = substr(line, RSTART + RLENGTH)
            base = from
            if (name ~ /^crate/) base = ""
            else { levels = gsub(/super::/, "", name); while (levels-- > 0) if (!sub(/\/[^\/]*$/, "", base)) base = "" }
            sub(/^crate::/, "", name); gsub(/::/, "/", name); sub(/\/$/, "", name)
            to = (base == "" ? "" : base "/") name
            while (!(to in files) && to != "") if (!sub(/\/[^\/]*$/, "", to)) to = ""
            if (to != "" && to != from) edges[from, to] = 1
          }
        }
        close(path)
      }
      for (from in files) {
        delete seen; count = 1; open[1] = from
        while (count > 0) { at = open[count--]; for (to in files) if ((at, to) in edges && !(to in seen)) { seen[to] = 1; open[++count] = to } }
        for (to in seen) reach[from, to] = 1
      }
      for (from in files) {
        if (!((from, from) in reach) || from in done) continue
        size = 0; names = ""
        for (to in files) if ((from, to) in reach && (to, from) in reach) { done[to] = 1; size++; if (size <= 6) names = names " " to }
        printf "  %-22s %3d %s\n", folder, size, names (size > 6 ? " ..." : "")
      }
    }'
done | sort -k2,2nr

echo
echo "largest files"
for file in "${product[@]}"; do
  case "$file" in */tests.rs | */tests/*) ;; *) echo "$(count product "$file") $file" ;; esac
done | sort -nr | head -10 | sed 's/^/  /'
echo
echo "longest functions"
for file in "${product[@]}"; do
  case "$file" in */tests.rs | */tests/*) continue ;; esac
  awk -v file="$file" '
    /^#\[cfg\(test\)\]$/ { exit }
    match($0, /^ *(pub(\([a-z:_ ]*\))? )?(const )?(async )?fn [a-z_0-9]+/) && $0 !~ /\}$/ && name == "" {
      indent = match($0, /[^ ]/) - 1; name = $0; sub(/^.*fn /, "", name); sub(/[^a-z_0-9].*/, "", name); start = FNR }
    name != "" && FNR > start && match($0, /[^ ]/) - 1 == indent && /^ *\}$/ { print FNR - start + 1, file " " name; name = "" }
    name != "" && FNR > start && match($0, /[^ ]/) - 1 == indent && /;$/ { name = "" }' "$file"
done | sort -nr | head -10 | sed 's/^/  /'
