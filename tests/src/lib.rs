//! Harness of the system tests, the demo and the bench: real peers on loopback and verbs to drive them.
//!
//! Every peer is the real program (etcd, kube-apiserver, kube-controller-manager, docker-registry, SeaweedFS,
//! `git http-backend`, sshd) on a free port, in a folder of its own. Each is a child of a *keeper*
//! ([`keeper`]), which ends it when the process that asked for it is gone, however that happened.
//!
//! Nothing here is bound to one tokio runtime, because each `#[tokio::test]` has its own: a [`Plane`] may be
//! shared between tests, its clients are made anew for each.

pub mod bucket;
pub mod ca;
pub mod catalog;
pub mod collector;
pub mod faulty;
pub mod fixtures;
pub mod gate;
pub mod git;
pub mod http_proxy;
pub mod installation;
pub mod keeper;
pub mod kubectl;
pub mod kubelet;
pub mod meter;
pub mod metrics;
pub mod olmv0;
pub mod openshift;
pub mod plane;
pub mod process;
pub mod registry;
pub mod tls;
pub mod tools;
pub mod verbs;
pub mod world;

pub use bucket::BucketServer;
pub use ca::{Leaf, TestCa};
pub use catalog::{CatalogImage, CatalogServer, CatalogdServer, Documents};
pub use faulty::{Fault, FaultyServer, Rule};
pub use gate::{Act, Gate};
pub use git::{GitServer, GitServerOptions, GitSigner, RepoBuilder, SshServer, SshSigner};
pub use meter::Meter;
pub use plane::{InstallOptions, Plane, PlaneOptions};
pub use process::{ControllerOptions, PlatformOptions, Process, WebhookOptions};
pub use registry::{ImageBuilder, Layer, Registry, RegistryOptions};
