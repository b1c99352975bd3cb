//! Plans: nothing is written before the yes, the yes is for what the Plan says and for nothing else, and only who may gives it.

mod answers;
pub mod case;
mod expiry;
mod forgeries;
mod policies;
mod shown;
mod windows;
