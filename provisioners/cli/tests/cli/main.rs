//! The real program, run.

mod catalog;
mod corpus;
mod documentation;
mod refusals;
mod render;
mod support;
