use crate::certificates::renewal::Held;

use super::*;

const LIFETIME: Duration = Duration::from_secs(1000);

/// Each entry of a Secret is a part; nothing is read or written.
struct Parts;

impl TrustBundle for Parts {
    type Object = Secret;

    fn api(&self) -> Api<Secret> {
        unreachable!("nothing is read")
    }

    fn name(&self) -> &'static str {
        "parts"
    }

    fn parts<'o>(&self, secret: Option<&'o Secret>) -> Vec<&'o [u8]> {
        let entries = secret.and_then(|secret| secret.data.as_ref()).into_iter().flatten();
        entries.map(|(_, part)| &*part.0).collect()
    }

    async fn publish(&self, _: Option<&Secret>, _: Vec<u8>) -> Result<Secret, kube::Error> {
        unreachable!("nothing is written")
    }
}

fn keeper() -> Keeper<Parts> {
    drop(rustls::crypto::ring::default_provider().install_default());
    let nobody = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
    let serving = Serving {
        namespace: "ns".to_owned(),
        secret: "certificate".to_owned(),
        names: vec!["svc.ns.svc".to_owned()],
        lifetime: LIFETIME,
        is_external: false,
        field_manager: "test",
    };
    Keeper::new(Client::try_from(nobody).unwrap(), serving, Parts)
}

impl Keeper<Parts> {
    /// Sees these parts, which have been there for so long.
    fn see(&mut self, parts: &[&[u8]], since: Duration) {
        let data = ["a", "b"].into_iter().zip(parts).map(|(name, part)| (name.to_owned(), ByteString(part.to_vec())));
        self.published = Look::found(Some(Secret { data: Some(data.collect()), ..Secret::default() }));
        self.look();
        self.trusted.iter_mut().for_each(|(_, at)| *at = at.checked_sub(since).unwrap());
    }

    /// Sees these authorities in both parts.
    fn see_published(&mut self, held: &Held, since: Duration) {
        self.see(&[&held.authorities, &held.authorities], since);
    }
}

#[tokio::test]
async fn the_first_certificate_is_served_where_its_authority_is_or_nobody_looks() {
    let (mut keeper, tls) = (keeper(), Tls::default());
    let held = keeper.advance(&Entries::new(), SystemTime::now()).unwrap();
    keeper.see(&[&held.authorities, b""], Duration::ZERO);
    assert!(!keeper.serve(&held.entries, &tls).unwrap(), "a part of the clients does not trust it");
    assert!(keeper.trust().is_err());
    keeper.see(&[], Duration::ZERO);
    assert!(keeper.serve(&held.entries, &tls).unwrap());
    assert!(keeper.trust().unwrap_err().starts_with("does not exist"));
    keeper.see_published(&held, Duration::ZERO);
    keeper.trust().unwrap();
}

#[tokio::test]
async fn a_new_certificate_waits_until_its_authority_has_settled() {
    let (mut keeper, tls) = (keeper(), Tls::default());
    let first = keeper.advance(&Entries::new(), SystemTime::now()).unwrap();
    keeper.see_published(&first, Duration::ZERO);
    assert!(keeper.serve(&first.entries, &tls).unwrap());

    // The Secret was lost: another certificate at once, and the authority of what is served stays beside the new one.
    let second = keeper.advance(&Entries::new(), SystemTime::now()).unwrap();
    let authorities = identity::certificates(&second.authorities).unwrap();
    assert_eq!(authorities[1..], identity::certificates(&first.authorities).unwrap());
    assert!(!keeper.serve(&second.entries, &tls).unwrap(), "nobody trusts it");
    keeper.see_published(&second, settle(LIFETIME) / 2);
    assert!(!keeper.serve(&second.entries, &tls).unwrap(), "not everybody has seen it");
    keeper.trust().unwrap();
    keeper.see_published(&second, settle(LIFETIME) / 2);
    assert!(keeper.serve(&second.entries, &tls).unwrap());
    keeper.trust().unwrap();
}

#[tokio::test]
async fn a_staged_certificate_is_promoted_once_its_authority_has_settled() {
    let mut keeper = keeper();
    let old = keeper.advance(&Entries::new(), SystemTime::now()).unwrap();
    let staged = keeper.advance(&old.entries, old.due).unwrap();
    assert!(staged.entries.contains_key(NEXT_CERTIFICATE));
    let is_promoted = |keeper: &Keeper<Parts>| {
        let held = keeper.advance(&staged.entries, staged.due + settle(LIFETIME)).unwrap();
        !held.entries.contains_key(NEXT_CERTIFICATE)
    };
    keeper.see_published(&old, settle(LIFETIME));
    assert!(!is_promoted(&keeper));
    keeper.see_published(&staged, Duration::ZERO);
    assert!(!is_promoted(&keeper));
    keeper.see_published(&staged, settle(LIFETIME));
    assert!(is_promoted(&keeper));
}
