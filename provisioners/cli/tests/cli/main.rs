//! The real program, run.

mod corpus;
mod refusals;
mod render;
mod support;
