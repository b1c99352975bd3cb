//! The content service, over real TLS: uploads and downloads, their status codes, and who may what.

pub mod caller;

mod access;
mod certificates;
mod downloads;
mod load;
mod secrets;
mod uploads;
mod upstream;
