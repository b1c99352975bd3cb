//! Whose content is unpacked: ContentPolicies, and signatures of images on a real registry and of commits on a real git server.

mod repository;
mod scene;

mod git;
mod keyless;
mod policies;
mod remembered;
mod signatures;
