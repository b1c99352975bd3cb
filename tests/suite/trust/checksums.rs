//! Signed lists of checksums on web servers.

use rukpak_content::Digest;
use rukpak_tests::OpenPgpSigner;
use rukpak_tests::registry::Cosign;
use serde_json::{Value, json};

use crate::trust::scene::{message, require};
use crate::trust::web::WebFolder;

const LIST: &str = "SHA256SUMS";

/// A folder whose archive has to be in a list, and the key that has to sign that.
async fn folder(prefix: &str) -> (WebFolder, Cosign) {
    let key = Cosign::new().expect("a key can be made");
    (WebFolder::new(prefix, listed(LIST, require(&[("release", &key)]))).await, key)
}

/// The rule, with a list.
fn listed(list: &str, mut rule: Value) -> Value {
    rule["checksums"] = json!(list);
    rule
}

/// A line of a list.
fn line(content: &[u8], name: &str) -> String {
    format!("{}  {name}\n", Digest::sha256(content).hex())
}

/// The line of the archive.
fn own(folder: &WebFolder) -> String {
    line(&folder.archive, &folder.name)
}

/// Publishes a list that `key` signed, and creates the Bundle.
async fn create(folder: &mut WebFolder, list: &str, key: &Cosign) {
    folder.sign(LIST, key, list.as_bytes());
    folder.publish(LIST, list);
    folder.create().await;
}

#[tokio::test]
async fn an_archive_in_a_signed_list_is_unpacked_and_says_by_whom() {
    let (mut folder, key) = folder("listed").await;
    let list = line(b"another", "another.tgz") + &own(&folder);
    create(&mut folder, &list, &key).await;
    let said = message(&folder.case.verified().await, "Verified");
    let digest = Digest::sha256(&folder.archive);
    assert!(said.starts_with(&format!("{digest} is signed by release, as rule \"ours\"")), "{said}");
}

#[tokio::test]
async fn lists_that_gpg_signed_count_with_armor_and_without() {
    let signer = OpenPgpSigner::new("rsa2048").unwrap();
    let release = json!({"name": "release", "pgpKey": {"data": signer.public_key().unwrap()}});
    let rule = json!({"action": "Require", "signers": [release]});
    for (end, options) in [("asc", &["--armor"][..]), ("sig", &[])] {
        let mut folder = WebFolder::new(&format!("gpg-{end}"), listed("{name}.sha256", rule.clone())).await;
        let (list, name) = (own(&folder), format!("{}.sha256", folder.name));
        folder.publish(&format!("{name}.{end}"), signer.detached(list.as_bytes(), options).unwrap());
        folder.publish(&name, list);
        folder.create().await;
        folder.case.verified().await;
    }
}

#[tokio::test]
async fn an_archive_without_a_list_is_refused_until_there_is_one() {
    let (mut folder, key) = folder("no-list").await;
    // It is the list that has to be signed.
    let (name, archive) = (folder.name.clone(), folder.archive.clone());
    folder.sign(&name, &key, &archive);
    folder.create().await;
    folder.case.refused(&format!("and there is no {}", folder.place(LIST))).await;
    let list = own(&folder);
    folder.sign(LIST, &key, list.as_bytes());
    folder.publish(LIST, list);
    folder.case.verified().await;
}

#[tokio::test]
async fn an_archive_that_is_not_in_the_list_is_refused() {
    let (mut folder, key) = folder("unlisted").await;
    let list = line(&folder.archive, "another.tgz");
    create(&mut folder, &list, &key).await;
    folder.case.refused(&format!("{LIST}, which release signed, has no SHA-256 of {}", folder.name)).await;
}

/// An archive that was put in the place of the one that was released.
#[tokio::test]
async fn an_archive_whose_digest_is_not_that_of_the_list_is_refused() {
    let (mut folder, key) = folder("digest").await;
    let list = line(b"what was released", &folder.name);
    create(&mut folder, &list, &key).await;
    let released = Digest::sha256(b"what was released");
    folder.case.refused(&format!("{LIST}, which release signed, has {released} for {}", folder.name)).await;
}

#[tokio::test]
async fn a_list_that_is_not_signed_is_refused() {
    let (mut folder, _) = folder("list-unsigned").await;
    let list = own(&folder);
    folder.publish(LIST, list);
    folder.create().await;
    let place = folder.place(LIST);
    folder.case.refused(&format!("and {LIST} is not signed: there is no {place}.sig")).await;
}

#[tokio::test]
async fn a_list_that_somebody_else_signed_is_refused() {
    let (mut folder, _) = folder("list-stranger").await;
    let list = own(&folder);
    create(&mut folder, &list, &Cosign::new().unwrap()).await;
    folder.case.refused(&format!("{LIST}.sig will not do: it was made with another key")).await;
}

/// Whoever may write to the folder adds the archive to the list, and leaves its signature.
#[tokio::test]
async fn a_list_that_was_swapped_after_it_was_signed_is_refused() {
    let (mut folder, key) = folder("list-swapped").await;
    let (signed, swapped) = (line(b"another", "another.tgz"), own(&folder));
    folder.sign(LIST, &key, signed.as_bytes());
    folder.publish(LIST, swapped);
    folder.create().await;
    folder.case.refused(&format!("{LIST}.sig will not do: ")).await;
}
