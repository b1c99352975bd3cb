//! Catalogs over real connections: the gRPC client, and the loader of images, folders and catalogd's HTTPS API.

mod common;

mod broken_streams;
mod corpus;
mod folders;
mod grpc;
mod https;
mod images;
mod labels;
