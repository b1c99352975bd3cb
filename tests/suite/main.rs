//! The system, on a real control plane: one plane, one controller and one webhook serve all tests of this binary.
//!
//! Names of tests carry the reference cases they show: `p` plain provisioner, `a` API validation, `w` webhook. Tests that
//! need a process with other flags, or that break the API server, start a plane of their own.

mod deployment;
mod world;
