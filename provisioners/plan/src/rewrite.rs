//! Every object of a kind is written anew, unchanged, so that it is stored in the version that is stored now: which objects are left,
//! and when it is done. The caller lists, page by page, and writes.
//!
//! It is complete although others go on writing. From the first list on, whoever writes an object has it stored in the new version,
//! for the caller begins only when every API server knows that version. So an object whose resource version is newer than that list
//! needs nothing, and an older one has to be rewritten by us. Each pass lists all objects from the beginning and rewrites those that
//! are left; a pass that finds none has shown, by the API server's own answer, that there are none. Objects that others write, create
//! or delete meanwhile do not add to what is left.

use std::collections::HashSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rukpak_crds::StoredMigration;

/// What was done to the objects of a CRD. Kept from one attempt to the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rewrite {
    /// UID and generation of the CRD that says which version is stored.
    definition: (Option<String>, Option<i64>),
    /// Resource version of the first list; `None` before it, and where resource versions are not the numbers that they are known to be.
    since: Option<u64>,
    /// UIDs of objects of which the API server said that they are stored as they should be, though it shows no newer version of them.
    settled: HashSet<String>,
    /// Objects that this pass had to rewrite.
    left: u64,
    /// Objects that this pass has seen.
    seen: u64,
    /// How many objects are known to be stored as they should be, and how many there are.
    progress: (u64, u64),
}

/// What came of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rewritten<'a> {
    /// It was accepted. The resource version that the object has then: the same as before where it was stored so already.
    As(Option<&'a str>),
    /// The object was changed by somebody else, or is gone.
    Overtaken,
}

impl Rewrite {
    /// Begins, for a CRD of this UID and generation.
    pub fn new(definition: (Option<String>, Option<i64>)) -> Self {
        Self { definition, since: None, settled: HashSet::new(), left: 0, seen: 0, progress: (0, 0) }
    }

    /// Goes on where a status says that another process was. What the API server had to say of single objects has to be asked again.
    pub fn resumed(record: &StoredMigration) -> Option<Self> {
        let StoredMigration { crd: _, uid, generation, since, migrated } = record;
        let since = Some(since.parse().ok()?);
        let migrated = u64::try_from(*migrated).unwrap_or_default();
        Some(Self { since, progress: (migrated, migrated), ..Self::new((Some(uid.clone()), Some(*generation))) })
    }

    /// As a status records it. `None` before the first list, and where resource versions are not the numbers that they are known to be.
    pub fn record(&self, crd: &str) -> Option<StoredMigration> {
        let (uid, generation) = self.definition.clone();
        Some(StoredMigration {
            crd: crd.to_owned(),
            uid: uid?,
            generation: generation?,
            since: self.since?.to_string(),
            migrated: i64::try_from(self.progress.0).unwrap_or(i64::MAX),
        })
    }

    /// Whether the CRD is the one that it began with: another generation may have stored another version in between.
    pub fn is_of(&self, definition: &(Option<String>, Option<i64>)) -> bool {
        self.definition == *definition
    }

    /// Whether nothing was listed yet.
    pub fn is_new(&self) -> bool {
        self.progress == (0, 0) && self.since.is_none()
    }

    /// A list begins.
    pub fn begin_pass(&mut self) {
        (self.left, self.seen) = (0, 0);
    }

    /// Returns the objects of a page that have to be rewritten. `version`: that of the list. `remaining`: how many objects follow, if
    /// the API server says.
    pub fn select(&mut self, version: Option<&str>, remaining: Option<i64>, page: Vec<ObjectMeta>) -> Vec<ObjectMeta> {
        self.since = self.since.or_else(|| number(version));
        let count = page.len() as u64;
        let total = self.seen + count + remaining.and_then(|count| u64::try_from(count).ok()).unwrap_or_default();
        let left: Vec<ObjectMeta> = page.into_iter().filter(|object| !self.is_done(object)).collect();
        self.left += left.len() as u64;
        self.seen += count;
        self.progress = (self.progress.0.max(self.seen - left.len() as u64).min(total), total);
        left
    }

    fn is_done(&self, object: &ObjectMeta) -> bool {
        let is_newer = number(object.resource_version.as_deref()) > self.since && self.since.is_some();
        is_newer || object.uid.as_ref().is_some_and(|uid| self.settled.contains(uid))
    }

    /// Notes what came of the write of an object that [`select`](Self::select) returned.
    pub fn note(&mut self, object: &ObjectMeta, rewritten: Rewritten<'_>) {
        self.progress.0 = (self.progress.0 + 1).min(self.progress.1);
        let Rewritten::As(version) = rewritten else { return };
        // Nothing newer will be listed.
        let is_unmoved = number(version).is_none_or(|version| Some(version) <= self.since);
        self.settled.extend(object.uid.clone().filter(|_| is_unmoved || self.since.is_none()));
    }

    /// Whether the pass that has come to its end found every object stored as it should be.
    pub fn is_complete(&self) -> bool {
        self.left == 0
    }

    /// How many objects are known to be stored as they should be, and how many there are.
    pub fn progress(&self) -> (u64, u64) {
        self.progress
    }
}

fn number(version: Option<&str>) -> Option<u64> {
    version?.parse().ok()
}

/// A number as people read it: `12,340`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Objects as a list shows them, by number of the object and resource version.
    fn page(objects: &[(u32, &str)]) -> Vec<ObjectMeta> {
        let object = |(number, version): &(u32, &str)| ObjectMeta {
            uid: Some(format!("u{number}")),
            resource_version: Some((*version).to_owned()),
            ..ObjectMeta::default()
        };
        objects.iter().map(object).collect()
    }

    fn new() -> Rewrite {
        Rewrite::new((Some("crd".to_owned()), Some(3)))
    }

    /// Lists one page as the whole, and rewrites what is left to these versions.
    fn pass(rewrite: &mut Rewrite, version: &str, objects: &[(u32, &str)], rewritten: &[Rewritten<'_>]) -> usize {
        rewrite.begin_pass();
        let left = rewrite.select(Some(version), None, page(objects));
        assert_eq!(left.len(), rewritten.len(), "{left:?}");
        for (object, rewritten) in left.iter().zip(rewritten) {
            rewrite.note(object, *rewritten);
        }
        left.len()
    }

    #[test]
    fn is_complete_at_once_without_objects() {
        let mut rewrite = new();
        assert!(rewrite.is_new());
        pass(&mut rewrite, "10", &[], &[]);
        assert!(rewrite.is_complete() && !rewrite.is_new());
        assert_eq!(rewrite.progress(), (0, 0));
    }

    #[test]
    fn is_complete_when_another_list_shows_nothing_older_than_the_first() {
        let mut rewrite = new();
        pass(&mut rewrite, "10", &[(1, "4"), (2, "10")], &[Rewritten::As(Some("11")), Rewritten::As(Some("12"))]);
        assert!(!rewrite.is_complete(), "nobody has looked again");
        pass(&mut rewrite, "13", &[(1, "11"), (2, "12")], &[]);
        assert!(rewrite.is_complete());
        assert_eq!(rewrite.progress(), (2, 2));
    }

    #[test]
    fn what_others_write_create_and_delete_is_not_left() {
        let mut rewrite = new();
        let rewritten = [Rewritten::Overtaken, Rewritten::Overtaken, Rewritten::As(Some("14"))];
        pass(&mut rewrite, "10", &[(1, "4"), (2, "5"), (3, "6")], &rewritten);
        pass(&mut rewrite, "15", &[(1, "11"), (3, "14"), (4, "13")], &[]);
        assert!(rewrite.is_complete());
    }

    #[test]
    fn object_that_was_not_answered_for_is_left() {
        let mut rewrite = new();
        rewrite.begin_pass();
        let left = rewrite.select(Some("10"), None, page(&[(1, "4"), (2, "5")]));
        rewrite.note(&left[0], Rewritten::As(Some("11")));
        assert_eq!(pass(&mut rewrite, "12", &[(1, "11"), (2, "5")], &[Rewritten::As(Some("13"))]), 1);
        assert!(!rewrite.is_complete());
    }

    /// The API server writes nothing where what is stored would be the same.
    #[test]
    fn object_that_is_stored_so_already_is_not_rewritten_again() {
        let mut rewrite = new();
        pass(&mut rewrite, "10", &[(1, "4"), (2, "5")], &[Rewritten::As(Some("4")), Rewritten::As(Some("11"))]);
        pass(&mut rewrite, "12", &[(1, "4"), (2, "11")], &[]);
        assert!(rewrite.is_complete());
    }

    #[test]
    fn answers_alone_count_where_resource_versions_are_no_numbers() {
        let mut rewrite = new();
        pass(&mut rewrite, "x", &[(1, "a"), (2, "b")], &[Rewritten::As(Some("c")), Rewritten::Overtaken]);
        assert_eq!(pass(&mut rewrite, "y", &[(1, "c"), (2, "d")], &[Rewritten::As(Some("e"))]), 1);
        pass(&mut rewrite, "z", &[(1, "c"), (2, "e")], &[]);
        assert!(rewrite.is_complete());
    }

    #[test]
    fn another_generation_of_the_crd_is_another_rewrite() {
        let rewrite = new();
        assert!(rewrite.is_of(&(Some("crd".to_owned()), Some(3))));
        assert!(!rewrite.is_of(&(Some("crd".to_owned()), Some(4))));
        assert!(!rewrite.is_of(&(Some("other".to_owned()), Some(3))));
    }

    #[test]
    fn another_process_goes_on_where_the_status_says() {
        let mut rewrite = new();
        assert_eq!(rewrite.record("dogs"), None, "nothing is known yet");
        rewrite.begin_pass();
        let left = rewrite.select(Some("10"), Some(3), page(&[(1, "4"), (2, "5")]));
        for (object, version) in left.iter().zip(["11", "12"]) {
            rewrite.note(object, Rewritten::As(Some(version)));
        }
        let record = rewrite.record("dogs").expect("it was listed");
        let mut other = Rewrite::resumed(&record).expect("it is one");
        assert!(other.is_of(&(Some("crd".to_owned()), Some(3))) && !other.is_new());
        other.begin_pass();
        assert_eq!(other.select(Some("20"), Some(4), page(&[(1, "11")])).len(), 0);
        assert_eq!(other.progress(), (2, 5), "not less than was said before");
        assert_eq!(other.select(Some("20"), None, page(&[(2, "12"), (3, "6"), (4, "7"), (5, "21")])).len(), 2);
        assert_eq!(Rewrite::resumed(&StoredMigration { since: "x".to_owned(), ..record }), None);
    }

    #[test]
    fn progress_counts_over_pages_and_attempts() {
        let mut rewrite = new();
        rewrite.begin_pass();
        let left = rewrite.select(Some("10"), Some(3), page(&[(1, "4"), (2, "5")]));
        assert_eq!(rewrite.progress(), (0, 5));
        for (object, version) in left.iter().zip(["11", "12"]) {
            rewrite.note(object, Rewritten::As(Some(version)));
        }
        assert_eq!(rewrite.progress(), (2, 5));
        rewrite.begin_pass();
        assert!(rewrite.select(Some("20"), Some(3), page(&[(1, "11"), (2, "12")])).is_empty());
        assert_eq!(rewrite.progress(), (2, 5));
        rewrite.select(Some("20"), None, page(&[(3, "6"), (4, "7"), (5, "8")]));
        assert_eq!(rewrite.progress(), (2, 5));
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!([0, 999, 1_000, 12_340, 1_234_567].map(grouped), ["0", "999", "1,000", "12,340", "1,234,567"]);
    }
}
