//! Whose content is unpacked: ContentPolicies, and signatures of images on a real registry and of commits on a real git server.

#[path = "trust/scene.rs"]
mod scene;

#[path = "trust/archives.rs"]
mod archives;
#[path = "trust/git.rs"]
mod git;
#[path = "trust/keyless.rs"]
mod keyless;
#[path = "trust/policies.rs"]
mod policies;
#[path = "trust/signatures.rs"]
mod signatures;
