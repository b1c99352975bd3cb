//! What is admitted. Pure: the object as it was, the object as it shall be, and a verdict.

pub mod bundle;
pub mod spec;
