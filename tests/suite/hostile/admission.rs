//! Admission reviews that no API server would send, to the port that anybody in the cluster reaches: forged, of wrong types, huge,
//! truncated, slow, and from thousands of connections.

#[path = "admission/bodies.rs"]
mod bodies;
#[path = "admission/bombs.rs"]
mod bombs;
#[path = "admission/connections.rs"]
mod connections;
#[path = "admission/forged.rs"]
mod forged;
#[path = "admission/scene.rs"]
mod scene;
