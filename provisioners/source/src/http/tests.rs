mod answers;
mod egress;
mod proxies;
mod secrets;
mod streams;

use super::*;
use crate::chain::chain;
use crate::client::server::{Answer, Server, basic, certificate};
use crate::stage::tests::listing;
use crate::tarball::tests::{bundle, escaping, gzip, tar};

fn options() -> FetcherOptions {
    FetcherOptions { egress: Egress::anywhere(), ..FetcherOptions::new(std::env::temp_dir(), Limits::default()) }
}

fn fetcher() -> Fetcher {
    Fetcher::new(options()).unwrap()
}

fn request(server: &Server) -> Request {
    Request::new(&format!("http://{}/b.tgz", server.host())).unwrap()
}

async fn serve(answer: Answer) -> Server {
    Server::start(move |_| answer.clone()).await
}

async fn refusal(options: FetcherOptions, request: &Request) -> Error {
    let fetcher = Fetcher::new(options).unwrap();
    match fetcher.download(request).await {
        Ok(download) => fetcher.unpack(download).await.unwrap_err(),
        Err(error) => error,
    }
}

#[tokio::test]
async fn what_is_downloaded_is_pinned_and_unpacked() {
    let numbers: Vec<_> = (0..400_000_u32).map(|n| n.wrapping_mul(2_654_435_761).to_string()).collect();
    let big = numbers.join(" ");
    let plain = tar(&[("manifests/a.yaml", b"a: 1\n"), ("manifests/big", big.as_bytes())]);
    for body in [gzip(&plain), zstd::encode_all(&plain[..], 1).unwrap(), plain.clone()] {
        let server = serve(Answer::new(200, body.clone())).await;
        let (fetcher, request) = (fetcher(), request(&server));
        let download = fetcher.download(&request).await.unwrap();
        let pin = download.digest().clone();
        assert_eq!((&pin, download.size_bytes()), (&Digest::sha256(&body), body.len() as u64));
        let listing = listing(&fetcher.unpack(download).await.unwrap());
        assert_eq!(listing["manifests/a.yaml"], "a: 1\n");
        assert!(listing["manifests/big"] == big);
        assert_eq!(fetcher.download_pinned(&request, &pin).await.unwrap().digest(), &pin);
    }
}

#[tokio::test]
async fn other_bytes_than_the_pinned_ones_are_refused() {
    let server = serve(Answer::new(200, bundle())).await;
    let pin = Digest::sha256(b"what it was");
    let error = fetcher().download_pinned(&request(&server), &pin).await.unwrap_err();
    assert_eq!(error.class(), Class::Terminal);
    let text = error.to_string();
    assert!(text.contains(&pin.to_string()) && text.contains(&Digest::sha256(&bundle()).to_string()), "{text}");
}
