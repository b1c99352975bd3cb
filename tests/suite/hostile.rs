//! Hostile input: each kind is refused by the rule or limit that its test names, within a bound on memory, and harms nobody else.

mod admission;
mod archives;
mod catalogs;
mod content;
mod egress;
mod git;
mod logins;
mod manifests;
mod registries;
mod sources;
