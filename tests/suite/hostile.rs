//! Hostile input: each kind is refused by the rule or limit that its test names, within a bound on memory, and harms nobody else.

#[path = "hostile/admission.rs"]
mod admission;
#[path = "hostile/archives.rs"]
mod archives;
#[path = "hostile/catalogs.rs"]
mod catalogs;
#[path = "hostile/content.rs"]
mod content;
#[path = "hostile/egress.rs"]
mod egress;
#[path = "hostile/git.rs"]
mod git;
#[path = "hostile/logins.rs"]
mod logins;
#[path = "hostile/manifests.rs"]
mod manifests;
#[path = "hostile/registries.rs"]
mod registries;
#[path = "hostile/sources.rs"]
mod sources;
