//! A store that lies in a bucket: what it does when the network, the server or another writer is in the way. The server is real; the
//! faults are a proxy's before it.

#[path = "store/collection.rs"]
mod collection;
#[path = "store/faults.rs"]
mod faults;
#[path = "store/migration.rs"]
mod migration;
#[path = "store/world.rs"]
mod world;
#[path = "store/writers.rs"]
mod writers;
