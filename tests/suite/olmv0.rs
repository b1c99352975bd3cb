//! What OLM v0 has installed is taken over by `rukpakctl migrate`, and given back. OLM's programs do not run: what they write is written
//! by the harness. Beside it OLM v0's API, served by our programs (`facade`).

mod all;
mod back;
mod case;
pub mod corpus;
pub mod facade;
mod forward;
mod kills;
mod many;
mod pages;
mod refusals;
mod world;
