//! What is in an image is what is staged.

use super::*;

#[tokio::test]
async fn layers_of_every_compression_are_applied_in_order() {
    let image = Image::new(&[
        (GZIP, gzip(&tar(&[("manifests/a", b"1"), ("manifests/b", b"1"), ("etc/passwd", b"x")]))),
        (
            "application/vnd.oci.image.layer.v1.tar+zstd",
            zstd::encode_all(&tar(&[("manifests/.wh.a", b"")])[..], 1).unwrap(),
        ),
        // Mislabelled: the bytes decide.
        (GZIP, tar(&[("manifests/b", b"2"), ("usr/big", &vec![7; 3_000_000])])),
    ]);
    let digest = image.digest();
    let server = Server::start(move |seen| image.answer(seen)).await;
    let puller = puller(&[&server]);
    let reference = format!("{}/team/app", server.host());
    let resolved = puller.resolve(&format!("{reference}:v1"), &Credentials::anonymous()).await.unwrap();
    assert_eq!(resolved.reference(), format!("{reference}@{digest}"));
    assert_eq!((resolved.digest(), resolved.manifest_digest()), (&digest, &digest));
    let stage = puller.fetch(&resolved, &Credentials::anonymous()).await.unwrap();
    let listing = listing(&stage);
    assert_eq!(
        listing.keys().map(String::as_str).collect::<Vec<_>>(),
        ["manifests/", "manifests/b", "usr/", "usr/big"]
    );
    assert_eq!(listing["manifests/b"], "2");
    assert_eq!(listing["usr/big"].len(), 3_000_000);
    // The pin names the same bytes, whatever tag stands beside it, and so does what was written down.
    let pinned = puller.resolve_pinned(&format!("{reference}:gone"), &digest, &Credentials::anonymous()).await.unwrap();
    assert_eq!(pinned.reference(), resolved.reference());
    assert!(pull(&puller, &resolved.reference(), &Credentials::anonymous()).await.is_ok());
    assert!(server.seen().iter().all(|seen| seen.authorization.is_none()));
}

#[tokio::test]
async fn an_index_leads_to_a_checked_manifest() {
    let image = Image::small();
    let entry = |digest: &Digest, size: usize| {
        format!(
            r#"{{"schemaVersion":2,"manifests":[{{"mediaType":"m","digest":"{digest}","size":{size},
                "platform":{{"os":"linux","architecture":"mips"}}}}]}}"#
        )
    };
    let good = entry(&image.digest(), image.manifest.len());
    let wrong_size = entry(&image.digest(), image.manifest.len() + 1);
    let manifest_digest = image.digest();
    let server = Server::start({
        let (good, wrong_size) = (good.clone(), wrong_size.clone());
        move |seen| match seen.target.rsplit_once('/').unwrap().1 {
            "good" => Answer::new(200, good.clone()),
            "size" => Answer::new(200, wrong_size.clone()),
            _ => image.answer(seen),
        }
    })
    .await;
    let puller = puller(&[&server]);
    let none = Credentials::anonymous();
    let resolved = puller.resolve(&format!("{}/app:good", server.host()), &none).await.unwrap();
    assert_eq!(resolved.digest(), &Digest::sha256(good.as_bytes()));
    assert_eq!(resolved.manifest_digest(), &manifest_digest);
    assert!(puller.fetch(&resolved, &none).await.is_ok());
    let refusal = puller.resolve(&format!("{}/app:size", server.host()), &none).await.unwrap_err();
    assert!(matches!(refusal, Error::Size { .. }), "{refusal}");
}

#[tokio::test]
async fn changed_content_is_never_staged() {
    let whole = Image::small();
    let blob = &whole.blobs[0].1;
    let mut changed = blob.clone();
    changed[30] ^= 1;
    let longer = [&blob[..], b"x"].concat();
    let cases: [(Vec<u8>, &str); 3] =
        [(changed, "changed the content"), (blob[..blob.len() - 1].to_vec(), "expected"), (longer, "got at least")];
    for (body, expected) in cases {
        let image = whole.clone();
        let server = Server::start(move |seen| {
            if seen.target.contains("/blobs/") { Answer::new(200, body.clone()) } else { image.answer(seen) }
        })
        .await;
        let reference = format!("{}/app:v1", server.host());
        let refusal = pull(&puller(&[&server]), &reference, &Credentials::anonymous()).await.unwrap_err();
        assert_eq!(refusal.class(), Class::Terminal);
        let text = everything(&refusal);
        assert!(text.contains(expected) && text.contains(&whole.blobs[0].0), "{text}");
    }
}

#[tokio::test]
async fn a_manifest_that_is_not_what_was_asked_for_is_refused() {
    let (image, other) = (Image::small(), Image::new(&[]));
    let digest = image.digest();
    let server = Server::start({
        let digest = digest.to_string();
        move |seen| {
            // A tag: only the registry's own claim can be wrong.
            if seen.target.ends_with("/claimed") {
                Answer::new(200, other.manifest.clone()).header("Docker-Content-Digest", digest.clone())
            } else {
                Answer::new(200, other.manifest.clone())
            }
        }
    })
    .await;
    for name in [format!("@{digest}"), ":claimed".to_owned()] {
        let reference = format!("{}/app{name}", server.host());
        let refusal = puller(&[&server]).resolve(&reference, &Credentials::anonymous()).await.unwrap_err();
        assert!(matches!(&refusal, Error::Mismatch { expected, .. } if *expected == digest), "{refusal}");
    }
}

#[tokio::test]
async fn damaged_and_forbidden_layers_name_the_layer() {
    let whole = gzip(&tar(&[("manifests/a", &vec![3; 100_000])]));
    let cases = [
        (whole[..whole.len() / 2].to_vec(), "cannot read"),
        (b"this is no archive".repeat(100), "cannot read the tar archive"),
        (gzip(&escaping()), "leaves the bundle"),
        (b"\xfd7zXZ\0 and so on".to_vec(), "xz compression is not supported"),
        (gzip(&vec![0; 5_000_000]), "times the compressed size (--limit=ratio)"),
    ];
    for (layer, expected) in cases {
        let image = Image::new(&[(GZIP, layer)]);
        let digest = image.blobs[0].0.clone();
        let server = Server::start(move |seen| image.answer(seen)).await;
        let reference = format!("{}/app:v1", server.host());
        let refusal = pull(&puller(&[&server]), &reference, &Credentials::anonymous()).await.unwrap_err();
        assert_eq!(refusal.class(), Class::Terminal, "{refusal}");
        let text = everything(&refusal);
        assert!(text.contains(expected) && text.contains(&digest), "{text}");
    }
}

#[tokio::test]
async fn limits_stop_a_pull_before_and_while_it_runs() {
    let image = Image::new(&[(GZIP, gzip(&tar(&[("usr/a", &[1; 5000])])))]);
    let size = image.blobs[0].1.len() as u64;
    let server = Server::start(move |seen| image.answer(seen)).await;
    let reference = format!("{}/app:v1", server.host());
    let none = Credentials::anonymous();
    let cases = [
        (Limits { download_bytes: size, tree_bytes: 5000, ..Limits::default() }, None),
        (Limits { download_bytes: size - 1, ..Limits::default() }, Some("--limit=download-bytes")),
        (Limits { tree_bytes: 4999, ..Limits::default() }, Some("--limit=tree-bytes")),
    ];
    for (limits, expected) in cases {
        let puller = Puller::new(PullerOptions { limits, ..options(&[&server]) }).unwrap();
        match (pull(&puller, &reference, &none).await, expected) {
            (Ok(_), None) => {}
            (Err(error), Some(expected)) => {
                assert_eq!(error.class(), Class::Terminal);
                assert!(everything(&error).contains(expected), "{}", everything(&error));
            }
            (found, _) => panic!("{expected:?}: {found:?}"),
        }
    }
}
