//! Whose content is unpacked: ContentPolicies, and signatures of images on a real registry.

#[path = "trust/scene.rs"]
mod scene;

#[path = "trust/keyless.rs"]
mod keyless;
#[path = "trust/policies.rs"]
mod policies;
#[path = "trust/signatures.rs"]
mod signatures;
