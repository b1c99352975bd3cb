//! A store that lies in a bucket: what it does when the network, the server or another writer is in the way. The server is real; the
//! faults are a proxy's before it.

mod collection;
mod faults;
mod world;
mod writers;
