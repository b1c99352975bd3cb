//! The places that a rule is for, in the words of containers-policy.json(5): a host, a host and the beginning of a path,
//! all hosts below a domain, or everything.

/// A scope. Any text is one; the schema of ContentPolicy refuses what its author cannot have meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    hosts: Hosts,
    /// Without slashes at its ends; empty for all paths.
    path: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Hosts {
    All,
    /// Begins with a dot.
    Below(String),
    One(String),
}

/// How well a scope fits what it matches: more is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fit {
    /// The host itself, before its domain, before everything.
    hosts: u8,
    domain: usize,
    path: usize,
}

impl Scope {
    /// Reads it.
    pub fn new(text: &str) -> Self {
        let (host, path) = text.split_once('/').unwrap_or((text, ""));
        let hosts = match host.strip_prefix('*') {
            Some("") => Hosts::All,
            Some(below) => Hosts::Below(normal_host(below)),
            None => Hosts::One(normal_host(host)),
        };
        Self { hosts, path: path.trim_matches('/').to_owned() }
    }

    /// How well it fits `location`, which is `host/path`; `None` if it does not. A source without a place has none.
    pub fn fit(&self, location: Option<&str>) -> Option<Fit> {
        let (host, path) = location.map(|location| location.split_once('/').unwrap_or((location, ""))).unzip();
        let host = host.map(normal_host);
        let hosts = match (&self.hosts, host) {
            (Hosts::All, _) => 0,
            (Hosts::Below(domain), Some(host)) if host.ends_with(domain.as_str()) && host.len() > domain.len() => 1,
            (Hosts::One(own), Some(host)) if *own == host => 2,
            _ => return None,
        };
        let domain = match &self.hosts {
            Hosts::Below(domain) => domain.len(),
            Hosts::All | Hosts::One(_) => 0,
        };
        is_below(path.unwrap_or_default(), &self.path).then_some(Fit { hosts, domain, path: self.path.len() })
    }
}

/// Whether two texts `host/path` name the same place.
pub(crate) fn is_same_place(one: &str, other: &str) -> bool {
    let parts = |text: &str| {
        let (host, path) = text.split_once('/').unwrap_or((text, ""));
        (normal_host(host), path.trim_matches('/').to_owned())
    };
    parts(one) == parts(other)
}

/// Whether `path` is `folder` or in it.
fn is_below(path: &str, folder: &str) -> bool {
    let rest = path.trim_start_matches('/').strip_prefix(folder);
    rest.is_some_and(|rest| folder.is_empty() || rest.is_empty() || rest.starts_with('/'))
}

/// One spelling for the hosts that a name can mean: without the dot of a whole domain name, and the port that TLS has by itself.
fn normal_host(host: &str) -> String {
    let host = host.to_ascii_lowercase();
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name, Some(port)),
        _ => (host.as_str(), None),
    };
    let name = name.trim_end_matches('.');
    // The names of Docker's registry; its signatures bear the second one.
    let name = if name == "index.docker.io" { "docker.io" } else { name };
    match port.filter(|port| *port != "443") {
        Some(port) => format!("{name}:{port}"),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(scope: &str, location: &str) -> bool {
        Scope::new(scope).fit(Some(location)).is_some()
    }

    #[test]
    fn a_scope_fits_whole_parts_of_a_path() {
        for (scope, location) in [
            ("*", "quay.io/a/b"),
            ("quay.io", "quay.io/a/b"),
            ("quay.io/a", "quay.io/a/b"),
            ("quay.io/a/", "quay.io/a"),
            ("quay.io/a/b", "quay.io/a/b"),
            ("*.example.com", "x.example.com/a"),
            ("*.example.com", "y.x.example.com/a"),
            ("*.example.com:5000", "x.example.com:5000/a"),
            ("localhost:5000/a", "localhost:5000/a"),
        ] {
            assert!(fits(scope, location), "{scope} {location}");
        }
        for (scope, location) in [
            ("quay.io/a", "quay.io/ab"),
            ("quay.io/a/b", "quay.io/a"),
            ("quay.io", "notquay.io/a"),
            ("quay.io", "quay.io:5000/a"),
            ("quay.io", "quay.io.evil.com/a"),
            ("*.example.com", "example.com/a"),
            ("*.example.com", "badexample.com/a"),
            ("localhost:5000", "localhost:5001/a"),
        ] {
            assert!(!fits(scope, location), "{scope} {location}");
        }
        assert!(Scope::new("*").fit(None).is_some());
        assert!(Scope::new("quay.io").fit(None).is_none());
    }

    #[test]
    fn another_spelling_of_a_host_is_the_same_host() {
        for location in ["QUAY.io/a", "quay.io./a", "quay.io:443/a", "quay.io.:443/a"] {
            assert!(fits("quay.io/a", location), "{location}");
            assert!(!fits("quay.io/b", location), "{location}");
        }
        assert!(fits("docker.io/library", "index.docker.io/library/nginx"));
    }

    #[test]
    fn a_place_is_the_same_in_every_spelling_of_its_host_and_no_folder_of_it() {
        for other in ["quay.io/a", "QUAY.io:443/a", "quay.io./a/"] {
            assert!(is_same_place("quay.io/a", other), "{other}");
        }
        for other in ["quay.io/a/b", "quay.io", "quay.io:5000/a", "*", "quay.io/A"] {
            assert!(!is_same_place("quay.io/a", other) && !is_same_place(other, "quay.io/a"), "{other}");
        }
    }

    #[test]
    fn the_narrower_fits_better() {
        let location = Some("r.example.com/a/b");
        let order = [
            "*",
            "*.com",
            "*.com/a/b",
            "*.example.com",
            "*.example.com/a/b",
            "r.example.com",
            "r.example.com/a",
            "r.example.com/a/b",
        ];
        let fits: Vec<_> = order.iter().map(|scope| Scope::new(scope).fit(location).unwrap()).collect();
        assert!(fits.is_sorted_by(|one, next| one < next), "{fits:?}");
        assert_eq!(Scope::new("r.example.com/a/").fit(location), Some(fits[6]));
    }
}
