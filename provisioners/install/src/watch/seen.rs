//! What a watch over one kind has seen: the objects by their keys, and the keys by owner.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use rukpak_plain::ObjectKey;
use rukpak_plan::Owner;

use super::Observed;

/// The objects of one kind. A key and an owner are in memory once, however many objects name them.
#[derive(Default)]
pub(super) struct ObservedObjects {
    objects: BTreeMap<Arc<ObjectKey>, Observed>,
    owned: HashMap<Arc<Owner>, BTreeSet<Arc<ObjectKey>>>,
}

impl ObservedObjects {
    /// The object as it was seen last.
    pub fn get(&self, key: &ObjectKey) -> Option<&Observed> {
        self.objects.get(key)
    }

    /// The keys of all objects.
    pub fn keys(&self) -> impl Iterator<Item = &Arc<ObjectKey>> {
        self.objects.keys()
    }

    /// The objects of `owner`.
    pub fn of(&self, owner: &Owner) -> impl Iterator<Item = (&ObjectKey, &Observed)> {
        let keys = self.owned.get(owner).into_iter().flatten();
        keys.filter_map(|key| Some((&**key, self.objects.get(key)?)))
    }

    /// Takes up what was seen. Returns what was known of the object before.
    pub fn insert(&mut self, key: ObjectKey, mut observed: Observed) -> Option<Observed> {
        let known = self.objects.get_key_value(&key).map(|(key, _)| key.clone());
        let key = known.unwrap_or_else(|| Arc::new(key));
        if let Some((owner, _)) = self.owned.get_key_value(&observed.owner) {
            observed.owner = owner.clone();
        }
        let owner = observed.owner.clone();
        let before = self.objects.insert(key.clone(), observed);
        if let Some(before) = before.as_ref().filter(|before| before.owner != owner) {
            self.disown(&before.owner, &key);
        }
        self.owned.entry(owner).or_default().insert(key);
        before
    }

    /// Forgets an object. Returns what was known of it.
    pub fn remove(&mut self, key: &ObjectKey) -> Option<Observed> {
        let before = self.objects.remove(key)?;
        self.disown(&before.owner, key);
        Some(before)
    }

    fn disown(&mut self, owner: &Owner, key: &ObjectKey) {
        let Some(keys) = self.owned.get_mut(owner) else { return };
        keys.remove(key);
        if keys.is_empty() {
            self.owned.remove(owner);
        }
    }
}

#[cfg(test)]
mod tests {
    use kube::core::{ApiResource, GroupVersionKind};
    use rukpak_crds::names::FIELD_MANAGER;
    use rukpak_plan::{Fingerprint, Kind};

    use super::*;

    fn key(name: &str) -> ObjectKey {
        ObjectKey { group: String::new(), kind: "ConfigMap".into(), namespace: Some("ns".into()), name: name.into() }
    }

    fn observed(owner: &str) -> Observed {
        let resource = Arc::new(ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "ConfigMap")));
        let owner = Arc::new(Owner { name: owner.into(), uid: owner.into() });
        let fingerprint = Fingerprint::of(&kube::core::ObjectMeta::default(), &owner, FIELD_MANAGER);
        Observed { owner, fingerprint, kind: Kind { resource, namespaced: true } }
    }

    fn names(seen: &ObservedObjects, owner: &str) -> Vec<String> {
        seen.of(&observed(owner).owner).map(|(key, _)| key.name.clone()).collect()
    }

    #[test]
    fn an_object_is_found_by_its_key_and_by_its_owner_of_now() {
        let mut seen = ObservedObjects::default();
        assert!(seen.insert(key("one"), observed("a")).is_none());
        assert!(seen.insert(key("two"), observed("a")).is_none());
        assert!(seen.insert(key("three"), observed("b")).is_none());
        assert_eq!(names(&seen, "a"), ["one", "two"]);
        // Another owner label: the object leaves the one and joins the other.
        assert_eq!(
            seen.insert(key("two"), observed("b")).map(|before| before.owner.name.clone()),
            Some("a".to_owned())
        );
        assert_eq!((names(&seen, "a"), names(&seen, "b")), (vec!["one".into()], vec!["three".into(), "two".into()]));
        assert_eq!(seen.get(&key("two")).map(|found| found.owner.name.as_str()), Some("b"));
        assert!(seen.remove(&key("one")).is_some());
        assert!(seen.remove(&key("one")).is_none());
        assert!(names(&seen, "a").is_empty());
        assert_eq!(seen.owned.len(), 1, "owners of nothing are forgotten");
    }

    #[test]
    fn owners_are_in_memory_once() {
        let mut seen = ObservedObjects::default();
        seen.insert(key("one"), observed("a"));
        seen.insert(key("two"), observed("a"));
        let owners: Vec<_> = seen.of(&observed("a").owner).map(|(_, observed)| observed.owner.clone()).collect();
        assert!(Arc::ptr_eq(&owners[0], &owners[1]));
    }
}
