//! The hashes were taken from `openssl x509 -hash`.

use rcgen::{CertificateParams, DistinguishedName, DnType, DnValue, KeyPair};

use super::*;

fn certificate(name: impl IntoIterator<Item = (DnType, DnValue)>) -> rcgen::Certificate {
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name = DistinguishedName::new();
    for (kind, value) in name {
        parameters.distinguished_name.push(kind, value);
    }
    parameters.self_signed(&KeyPair::generate().unwrap()).unwrap()
}

fn named(name: &str) -> rcgen::Certificate {
    certificate([(DnType::CommonName, name.into())])
}

#[test]
fn names_are_hashed_as_openssl_does() {
    let printable = DnValue::PrintableString("DE".try_into().unwrap());
    let long = |letter: &str, count| DnValue::from(letter.repeat(count));
    let table = [
        (vec![(DnType::CommonName, "one".into())], 0x1adc_c9b3),
        (
            vec![
                (DnType::CountryName, printable),
                (DnType::OrganizationName, "  An   Example  Ltd ".into()),
                (DnType::CommonName, "Röot CA 1".into()),
            ],
            0x6b07_efbe,
        ),
        (
            vec![
                (DnType::CommonName, long("x", 60)),
                (DnType::OrganizationalUnitName, long("Y", 60)),
                (DnType::OrganizationName, long("z", 60)),
                (DnType::LocalityName, long("w", 100)),
            ],
            0xd361_8510,
        ),
    ];
    for (name, hash) in table {
        assert_eq!(name::hash(certificate(name).der()), Some(hash), "{hash:08x}");
    }
}

#[test]
fn the_systems_own_files_are_named_as_ours_would_be() {
    let folders = SYSTEM_FOLDERS.into_iter().filter_map(|folder| fs::read_dir(folder).ok());
    for entry in folders.flatten().map(Result::unwrap) {
        let file_name = entry.file_name().into_string().unwrap();
        let Ok(text) = fs::read(entry.path()) else { continue };
        let Ok(certificate) = CertificateDer::from_pem_slice(&text) else { continue };
        if let Some(hash) = name::hash(&certificate).filter(|_| is_hash(&file_name)) {
            assert_eq!(file_name.split('.').next(), Some(format!("{hash:08x}").as_str()));
        }
    }
}

#[test]
fn odd_names_are_left_to_be_read_in_any_case() {
    let teletex = DnValue::TeletexString("one".try_into().unwrap());
    assert_eq!(name::hash(certificate([(DnType::CommonName, teletex)]).der()), None);
    assert_eq!(name::hash(certificate([]).der()), None);
    assert_eq!(name::hash(b"no certificate"), None);
}

/// Where the system's certificates are in `file` and, by hash, in `folder`.
fn sources(file: Option<&Path>, folder: Option<&Path>) -> Sources {
    let modified = |path: &Path| fs::metadata(path).unwrap().modified().unwrap();
    Sources {
        file: file.map(|path| (path.to_owned(), modified(path), fs::metadata(path).unwrap().len())),
        folder: folder.map(|path| (path.to_owned(), modified(path))),
    }
}

fn files(layout: &Layout) -> BTreeMap<String, String> {
    let entries = fs::read_dir(layout.folder.path()).unwrap().map(Result::unwrap);
    entries.map(|entry| (entry.file_name().into_string().unwrap(), fs::read_to_string(entry.path()).unwrap())).collect()
}

#[test]
fn every_certificate_is_there_once() {
    let place = TempDir::new().unwrap();
    let (file, folder) = (place.path().join("system.crt"), place.path().join("certs"));
    let odd = certificate([]);
    let (first, second, third) = (named("one"), named("one"), named("three"));
    fs::write(&file, format!("# a comment\n{}{}{}", first.pem(), second.pem(), odd.pem())).unwrap();
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("1adcc9b3.0"), first.pem()).unwrap();
    fs::write(folder.join("aaaaaaaa.0"), third.pem()).unwrap();
    fs::write(folder.join("README"), named("four").pem()).unwrap();
    let layout = Layout::make(place.path(), Some("EXTRA"), sources(Some(&file), Some(&folder))).unwrap();
    let mut files = files(&layout);
    let always = files.remove(ALWAYS).unwrap();
    assert_eq!(always, format!("{}\nEXTRA", pem(odd.der())));
    let texts = [("1adcc9b3.0", &first), ("1adcc9b3.1", &second)];
    for (name, certificate) in texts {
        assert_eq!(files.remove(name), Some(pem(certificate.der())), "{name}");
    }
    assert_eq!(files.into_values().collect::<Vec<_>>(), [pem(third.der())]);
}

#[test]
fn what_cannot_be_read_is_passed_on_as_it_is() {
    let place = TempDir::new().unwrap();
    let file = place.path().join("system.crt");
    let text = "-----BEGIN CERTIFICATE-----\nnonsense\n";
    fs::write(&file, text).unwrap();
    let layout = Layout::make(place.path(), None, sources(Some(&file), None)).unwrap();
    assert!(files(&layout)[ALWAYS].starts_with(text));
}

#[test]
fn one_layout_serves_until_it_is_lost() {
    let place = TempDir::new().unwrap();
    let roots = Roots::new(place.path().to_owned(), None);
    let first = roots.layout().unwrap();
    assert!(Arc::ptr_eq(&first, &roots.layout().unwrap()));
    fs::remove_dir_all(first.folder.path()).unwrap();
    assert!(roots.layout().unwrap().is_there());
}
