//! The apply engine: DESIGN 5 to 15 and promises 2, 3 and 6.

#[path = "engine/adoption.rs"]
mod adoption;
#[path = "engine/case.rs"]
mod case;
#[path = "engine/crashes.rs"]
mod crashes;
#[path = "engine/data.rs"]
mod data;
#[path = "engine/definitions.rs"]
mod definitions;
#[path = "engine/drift.rs"]
mod drift;
#[path = "engine/first.rs"]
mod first;
#[path = "engine/health.rs"]
mod health;
#[path = "engine/pivot.rs"]
mod pivot;
#[path = "engine/quiet.rs"]
mod quiet;
#[path = "deployments/tired.rs"]
mod tired;
