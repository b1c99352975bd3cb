//! What is admitted. Pure: the object as it was, the object as it shall be, what is known of others, and a verdict.

pub mod account;
pub mod bundle;
pub mod config_map;
pub mod crd;
pub mod marks;
pub mod needed;
pub mod pin;
pub mod spec;
pub mod subscription;
