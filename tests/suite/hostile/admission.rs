//! Admission reviews that no API server would send, to the port that anybody in the cluster reaches: forged, of wrong types, huge,
//! truncated, slow, and from thousands of connections.

mod bodies;
mod bombs;
mod connections;
mod forged;
mod scene;
