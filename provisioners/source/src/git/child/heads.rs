//! What the server has: names, and the objects they point to.

use std::panic::{AssertUnwindSafe, catch_unwind};

use git2::{Oid, RemoteConnection};

use crate::git::access::{Access, WantedRef};
use crate::git::{Class, Commit, Failure, Step};

/// The names that the server tells of. Those that are not UTF-8 cannot be asked for, and are left out.
pub(super) struct Heads(Vec<(String, Oid)>);

impl Heads {
    /// What came with the connection.
    pub(super) fn read(connection: &RemoteConnection<'_, '_, '_>) -> Result<Self, git2::Error> {
        let heads = connection.list()?.iter();
        let named = heads.filter_map(|head| {
            // git2 panics on a name that is not UTF-8, and offers no other way to the name.
            let name = catch_unwind(AssertUnwindSafe(|| head.name().to_owned())).ok()?;
            Some((name, head.oid()))
        });
        Ok(Self(named.collect()))
    }

    /// The commit that the request's reference means.
    pub(super) fn named(&self, access: &Access) -> Result<Commit, Failure> {
        let name = match &access.wanted {
            WantedRef::Commit(commit) => return Ok(commit.clone()),
            WantedRef::Ref(name) => name,
        };
        let oid = self.find(name).ok_or_else(|| self.unknown(access, name))?;
        oid.to_string().parse().map_err(|error| Failure::new(Step::Reference, Class::Terminal, format!("{error}")))
    }

    /// What the requested tag points to, be it a commit or an object of its own.
    pub(super) fn tag_object(&self, wanted: &WantedRef) -> Option<Oid> {
        let WantedRef::Ref(name) = wanted else { return None };
        let is_tag = name.starts_with("refs/tags/");
        self.0.iter().find(|(found, _)| is_tag && found == name).map(|(_, oid)| *oid)
    }

    /// A ref whose tip is the commit: the requested one if it still is, else any.
    pub(super) fn tip(&self, wanted: &WantedRef, commit: Oid) -> Option<String> {
        if let WantedRef::Ref(name) = wanted
            && self.find(name) == Some(commit)
        {
            return Some(name.clone());
        }
        let (name, _) = self.0.iter().find(|(name, oid)| *oid == commit && git2::Reference::is_valid_name(name))?;
        Some(name.clone())
    }

    /// What `name` points to, an annotated tag followed.
    fn find(&self, name: &str) -> Option<Oid> {
        let peeled = format!("{name}^{{}}");
        let at = |wanted: &str| self.0.iter().find(|(name, _)| name == wanted).map(|(_, oid)| *oid);
        at(&peeled).or_else(|| at(name)).filter(|oid| !oid.is_zero())
    }

    fn unknown(&self, access: &Access, name: &str) -> Failure {
        const SHOWN: usize = 5;
        let shown = &access.shown;
        let text = match (self.0.is_empty(), name.strip_prefix("refs/heads/"), name.strip_prefix("refs/tags/")) {
            (true, ..) => format!("{shown} is empty: push a commit first"),
            (_, Some(branch), _) => format!("{shown} has no branch {branch:?}{}", self.some("refs/heads/", SHOWN)),
            (_, _, Some(tag)) => format!("{shown} has no tag {tag:?}{}", self.some("refs/tags/", SHOWN)),
            _ => format!("{shown} has no default branch: name a branch, tag or commit"),
        };
        Failure::new(Step::Clone, Class::NotFound, text)
    }

    /// A few names that there are, since most unknown names are misspelt.
    fn some(&self, prefix: &str, count: usize) -> String {
        let names =
            self.0.iter().filter_map(|(name, _)| name.strip_prefix(prefix)).filter(|name| !name.ends_with("^{}"));
        let mut names: Vec<&str> = names.take(count + 1).collect();
        let more = if names.len() > count { ", …" } else { "" };
        names.truncate(count);
        if names.is_empty() { String::new() } else { format!(": it has {}{more}", names.join(", ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn oid(digit: char) -> Oid {
        Oid::from_str(&digit.to_string().repeat(40)).unwrap()
    }

    fn heads() -> Heads {
        let table = [
            ("HEAD", '1'),
            ("refs/heads/main", '1'),
            ("refs/tags/v1", '2'),
            ("refs/tags/v1^{}", '3'),
            ("refs/tags/v2", '4'),
        ];
        Heads(table.map(|(name, digit)| (name.to_owned(), oid(digit))).into())
    }

    #[test]
    fn annotated_tags_are_followed() {
        let table =
            [("HEAD", Some('1')), ("refs/tags/v1", Some('3')), ("refs/tags/v2", Some('4')), ("refs/heads/v1", None)];
        for (name, digit) in table {
            assert_eq!(heads().find(name), digit.map(oid), "{name}");
        }
        assert_eq!(Heads(vec![("HEAD".into(), oid('0'))]).find("HEAD"), None);
    }

    #[test]
    fn an_unknown_name_is_told_with_what_there_is() {
        assert_eq!(heads().some("refs/tags/", 5), ": it has v1, v2");
        assert_eq!(heads().some("refs/tags/", 1), ": it has v1, …");
        assert_eq!(heads().some("refs/none/", 5), "");
    }
}
