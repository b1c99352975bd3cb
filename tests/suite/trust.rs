//! Whose content is unpacked: ContentPolicies, and signatures of images on a real registry and of commits on a real git server.

#[path = "trust/repository.rs"]
mod repository;
#[path = "trust/scene.rs"]
mod scene;
#[path = "trust/web.rs"]
mod web;

#[path = "trust/archives.rs"]
mod archives;
#[path = "trust/checksums.rs"]
mod checksums;
#[path = "trust/git.rs"]
mod git;
#[path = "trust/keyless.rs"]
mod keyless;
#[path = "trust/openpgp.rs"]
mod openpgp;
#[path = "trust/policies.rs"]
mod policies;
#[path = "trust/signatures.rs"]
mod signatures;
