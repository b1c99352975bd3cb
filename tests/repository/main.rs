//! The repository itself: what may depend on what, and whether its documents are true.

mod architecture;
mod documents;
mod mutants;
mod scripts;
mod walls;
