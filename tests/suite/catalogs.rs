//! Catalogs over real connections: the gRPC client, and the loader of images, folders and catalogd's HTTPS API.

#[path = "catalogs/common.rs"]
mod common;

#[path = "catalogs/broken_streams.rs"]
mod broken_streams;
#[path = "catalogs/corpus.rs"]
mod corpus;
#[path = "catalogs/folders.rs"]
mod folders;
#[path = "catalogs/grpc.rs"]
mod grpc;
#[path = "catalogs/https.rs"]
mod https;
#[path = "catalogs/images.rs"]
mod images;
#[path = "catalogs/labels.rs"]
mod labels;
