//! The content service, over real TLS: uploads and downloads, their status codes, and who may what.

#[path = "content/caller.rs"]
mod caller;

#[path = "content/access.rs"]
mod access;
#[path = "content/certificates.rs"]
mod certificates;
#[path = "content/downloads.rs"]
mod downloads;
#[path = "content/load.rs"]
mod load;
#[path = "content/secrets.rs"]
mod secrets;
#[path = "content/uploads.rs"]
mod uploads;
#[path = "content/upstream.rs"]
mod upstream;
