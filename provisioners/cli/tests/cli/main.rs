//! The real program, run.

mod catalog;
mod cluster;
mod corpus;
mod documentation;
mod examples;
mod refusals;
mod render;
mod rights;
mod shell;
mod support;
