#!/usr/bin/env bash
# Makes the keys and commits of this folder with git and gpg: NAME.key and NAME.commit. The private keys are not kept.
set -euo pipefail
cd "$(dirname "$0")"
out=$PWD
work=$(mktemp -d)
trap 'gpgconf --homedir "$work/keyring" --kill gpg-agent; rm -rf "$work"' EXIT
mkdir -m 700 "$work/keyring"

# now: what gpg takes for the time.
now=20240110T000000
run() { gpg --quiet --batch --no-tty --homedir "$work/keyring" --faked-system-time "$now!" --pinentry-mode loopback --passphrase '' "$@" 2>>"$work/log"; }
# key NAME ALGORITHM USAGE LIFETIME [OPTION OF GPG...]: sets `id` to the fingerprint.
key() {
  run "${@:5}" --quick-gen-key "$1 <$1@example.com>" "$2" "$3" "$4"
  id=$(run --with-colons --list-keys "$1@example.com" | awk -F: '$1 == "fpr" {print $10; exit}')
}
# subkey ALGORITHM USAGE LIFETIME: of the last key; sets `subkey`.
subkey() {
  run --quick-add-key "$id" "$1" "$2" "$3"
  subkey=$(run --with-colons --list-keys "$id" | awk -F: '$1 == "fpr" {last = $10} END {print last}')
}
export_key() { run --armor --export "$id" >"$out/$1.key"; }
# commit NAME SIGNER [OPTION OF GPG...]
commit() {
  local name=$1 signer=$2
  shift 2
  printf '#!/bin/sh\nexec gpg --quiet --batch --no-tty --homedir %s --faked-system-time %s! --pinentry-mode loopback %s "$@"\n' "$work/keyring" "$now" "$*" >"$work/gpg"
  chmod +x "$work/gpg"
  rm -rf "$work/tree"
  git init --quiet "$work/tree"
  git -C "$work/tree" -c user.name=Test -c user.email=test@example.com -c gpg.format=openpgp -c gpg.program="$work/gpg" \
    -c user.signingkey="$signer" commit --quiet --allow-empty --gpg-sign --message "$name"
  git -C "$work/tree" cat-file commit HEAD >"$out/$name.commit"
}
# edit KEY COMMAND...: answers of somebody who edits a key.
edit() {
  local which=$1
  shift
  printf '%s\n' "$@" | gpg --quiet --no-tty --homedir "$work/keyring" --faked-system-time "$now!" --pinentry-mode loopback --passphrase '' \
    --expert --command-fd 0 --edit-key "$which" >>"$work/log" 2>&1
}

for algorithm in ed25519 nistp256 nistp384 nistp521 rsa2048 rsa1024 dsa2048 brainpoolP256r1; do
  key "$algorithm" "$algorithm" sign never
  export_key "$algorithm"
  commit "$algorithm" "$id"
done

# What gpg can be told to put into a signature.
key options ed25519 sign never
export_key options
commit sha1 "$id" --digest-algo SHA1
commit sha512 "$id" --digest-algo SHA512
commit md5 "$id" --digest-algo MD5
commit text "$id" --textmode
commit lifetime "$id" --default-sig-expire 10d
commit notation "$id" --sig-notation '!unheard@example.com=of'
now=20240101T000000
commit too-early "$id" --ignore-time-conflict
now=20240110T000000

key sha1-certificate rsa2048 sign never --cert-digest-algo SHA1
export_key sha1-certificate
commit sha1-certificate "$id"

# A key of 30 days, and what its owner made of it later.
now=20240101T000000
key expiring ed25519 sign 30d
export_key expiring
now=20240110T000000
commit expiring "$id"
run --quick-set-expire "$id" 2y
export_key expiring-extended
sed 's/^:---/---/' "$work/keyring/openpgp-revocs.d/$id.rev" | run --import
export_key expiring-revoked

# A primary key that only certifies, and subkeys that sign.
now=20240101T000000
key subkeys rsa2048 cert never
subkey ed25519 sign 30d
first=$subkey
subkey rsa2048 sign never
second=$subkey
subkey cv25519 encr never
now=20240110T000000
export_key subkeys
commit subkey-expiring "$first!"
commit subkey "$second!"
edit "$id" "key 2" "revkey" "y" "0" "" "y" "save"
export_key subkeys-revoked

# The owner takes the right to sign away: from a subkey, and from a primary key.
now=20240111T000000
edit "$id" "key 1" "change-usage" "s" "a" "q" "save"
export_key subkeys-unflagged
now=20240110T000000
key unflagged ed25519 sign never
commit unflagged "$id"
now=20240111T000000
edit "$id" "change-usage" "s" "q" "save"
export_key unflagged

# Two users, the first of them revoked.
now=20240101T000000
key users ed25519 sign never
now=20240105T000000
run --quick-add-uid "$id" "Second <second@example.com>"
now=20240106T000000
run --quick-revoke-uid "$id" "users <users@example.com>"
now=20240110T000000
export_key users
commit users "$id"
