//! What is attached to an image: where it is looked for, how far, and what one odd entry does to the others.

use std::ops::ControlFlow;

use rukpak_content::{Attachment, AttachmentVisitor};

use super::*;
use crate::mirrors::Mirrors;

const SIGNATURE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// Notes what it is shown, and goes on until it has seen the body `enough`.
#[derive(Default)]
struct Noted {
    bodies: Vec<String>,
    faults: Vec<String>,
}

impl AttachmentVisitor for Noted {
    fn wants(&self, media_type: &str) -> bool {
        media_type == SIGNATURE
    }

    fn visit(&mut self, attachment: &Attachment) -> ControlFlow<()> {
        let body = String::from_utf8_lossy(&attachment.body).into_owned();
        let enough = body == "enough";
        self.bodies.push(body);
        if enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn unreadable(&mut self, why: &str) {
        self.faults.push(why.to_owned());
    }
}

/// An artifact with these blobs.
fn artifact(blobs: &[&str]) -> Image {
    let blobs: Vec<_> = blobs.iter().map(|blob| (SIGNATURE, blob.as_bytes().to_vec())).collect();
    Image::new(&blobs)
}

/// Its entry in a list of referrers.
fn entry(artifact: &Image) -> String {
    let (digest, size) = (artifact.digest(), artifact.manifest.len());
    format!(r#"{{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"{digest}","size":{size}}}"#)
}

fn index(entries: &[String]) -> String {
    format!(r#"{{"schemaVersion":2,"mediaType":"{INDEX}","manifests":[{}]}}"#, entries.join(","))
}

/// A registry with `Image::small` and `artifacts`, which answers requests for lists of referrers by `list`.
async fn registry(artifacts: &[Image], list: impl Fn(&Seen) -> Answer + Send + Sync + 'static) -> Server {
    let images: Vec<_> = artifacts.iter().cloned().chain([Image::small()]).collect();
    Server::start(move |seen| {
        if seen.target.contains("/referrers/") {
            return list(seen);
        }
        let own = |image: &&Image| !seen.target.ends_with("/v1") || image.digest() == Image::small().digest();
        let answers = images.iter().filter(own).map(|image| image.answer(seen));
        answers.into_iter().find(|answer| answer.status == 200).unwrap_or_else(|| Answer::new(404, ""))
    })
    .await
}

async fn attached(puller: &Puller, reference: &str) -> (Result<(), Error>, Noted) {
    let none = Credentials::anonymous();
    let image = puller.resolve(reference, &none).await.unwrap();
    let mut noted = Noted::default();
    (puller.attachments(&image, &none, &mut noted).await, noted)
}

async fn attached_in(server: &Server) -> Noted {
    let (found, noted) = attached(&puller(&[server]), &format!("{}/app:v1", server.host())).await;
    found.unwrap();
    noted
}

#[tokio::test]
async fn one_odd_referrer_does_not_hide_the_others() {
    let good = artifact(&["good"]);
    let odd = [
        r#"{"mediaType":"x","digest":"md5:0","size":1}"#.to_owned(),
        r#"{"mediaType":"x","digest":7}"#.to_owned(),
        entry(&artifact(&["gone"])),
        entry(&good).replace(r#""size":"#, r#""size":1"#),
    ];
    let list = index(&[odd.as_slice(), &[entry(&good)]].concat());
    let server = registry(&[good], move |_| Answer::new(200, list.clone())).await;
    let Noted { bodies, faults } = attached_in(&server).await;
    assert_eq!(bodies, ["good"]);
    assert_eq!(faults.len(), odd.len(), "{faults:#?}");
    assert!(faults[0].contains("a digest cannot be used") && faults[2].contains("404"), "{faults:#?}");
}

#[tokio::test]
async fn a_list_that_is_none_is_told_and_ends_nothing() {
    let server = registry(&[], |_| Answer::new(200, "<html>")).await;
    let faults = attached_in(&server).await.faults;
    assert!(matches!(faults.as_slice(), [fault] if fault.starts_with("referrers of ")), "{faults:#?}");
}

#[tokio::test]
async fn a_list_is_read_page_by_page_until_it_is_enough() {
    let artifacts = ["one", "two", "enough", "never"].map(|blob| artifact(&[blob]));
    let pages: Vec<_> = artifacts.iter().map(|artifact| index(&[entry(artifact)])).collect();
    let server = registry(&artifacts, move |seen| {
        let at = seen.target.rsplit_once("?page=").map_or(0, |(_, page)| page.parse::<usize>().unwrap());
        let path = seen.target.split('?').next().unwrap();
        Answer::new(200, pages[at].clone()).header("Link", format!("<{path}?page={}>; rel=\"next\"", at + 1))
    })
    .await;
    let Noted { bodies, faults } = attached_in(&server).await;
    assert_eq!((bodies, faults), (["one", "two", "enough"].map(str::to_owned).to_vec(), Vec::new()));
}

#[tokio::test]
async fn what_goes_on_for_ever_is_given_up_and_said() {
    let many: Vec<_> = (0..300).map(|n: usize| artifact(&[&n.to_string()])).collect();
    let list = index(&many.iter().map(entry).collect::<Vec<_>>());
    let server = registry(&many, move |_| Answer::new(200, list.clone())).await;
    let Noted { bodies, faults } = attached_in(&server).await;
    assert_eq!(bodies.len(), 256);
    assert!(
        matches!(faults.as_slice(), [fault] if fault.ends_with(": more than 256; the rest was not looked at")),
        "{faults:#?}"
    );
    let server = registry(&[], |seen| {
        let path = seen.target.split('?').next().unwrap();
        Answer::new(200, index(&[])).header("Link", format!("<{path}?page=again>; rel=\"next\""))
    })
    .await;
    let faults = attached_in(&server).await.faults;
    assert!(
        matches!(faults.as_slice(), [fault] if fault.ends_with("more than 32 pages; the rest was not looked at")),
        "{faults:#?}"
    );
    assert_eq!(server.seen().iter().filter(|seen| seen.target.contains("/referrers/")).count(), 32);
}

/// What mirrors answer is told together with where they are.
#[tokio::test]
async fn a_mirror_without_lists_of_referrers_has_them_under_a_tag() {
    let good = artifact(&["good"]);
    let tag = format!("sha256-{}", Image::small().digest().hex());
    let list = index(&[entry(&good)]);
    let images = [good, Image::small()];
    let mirror = Server::start(move |seen| {
        if seen.target.contains("/referrers/") {
            return Answer::new(405, "");
        }
        if seen.target.ends_with(&tag) {
            return Answer::new(200, list.clone());
        }
        let answers = images.iter().map(|image| image.answer(seen));
        answers.into_iter().rfind(|answer| answer.status == 200).unwrap_or_else(|| Answer::new(404, ""))
    })
    .await;
    let mirrors = format!(
        "[[registry]]\nprefix = \"quay.example.com\"\nblocked = true\n[[registry.mirror]]\nlocation = \"{}\"\n",
        mirror.host()
    );
    let puller = puller(&[&mirror]).with_mirrors(Mirrors::parse(&mirrors).unwrap());
    let (found, noted) = attached(&puller, "quay.example.com/app:v1").await;
    found.unwrap();
    assert_eq!(noted.bodies, ["good"], "{:?}", noted.faults);
}

#[tokio::test]
async fn a_registry_in_trouble_is_no_answer() {
    let server = registry(&[], |_| Answer::new(503, "")).await;
    let (found, noted) = attached(&puller(&[&server]), &format!("{}/app:v1", server.host())).await;
    assert_eq!(found.unwrap_err().class(), Class::Unavailable);
    assert_eq!(noted.faults, Vec::<String>::new());
}
