//! The apply engine, on a real API server: what is written, repaired, upgraded, brought back and pruned, and what is not.

#[path = "engine/adoption.rs"]
mod adoption;
#[path = "engine/audit.rs"]
mod audit;
#[path = "engine/backoff.rs"]
mod backoff;
#[path = "engine/bundles_again.rs"]
mod bundles_again;
#[path = "engine/case.rs"]
mod case;
#[path = "engine/conversion.rs"]
mod conversion;
#[path = "engine/costs.rs"]
mod costs;
#[path = "engine/crashes.rs"]
mod crashes;
#[path = "engine/data.rs"]
mod data;
#[path = "engine/deadline.rs"]
mod deadline;
#[path = "engine/definitions.rs"]
mod definitions;
#[path = "engine/deletion_policy.rs"]
mod deletion_policy;
#[path = "engine/depends_on.rs"]
mod depends_on;
#[path = "engine/drift.rs"]
mod drift;
#[path = "engine/events.rs"]
mod events;
#[path = "engine/fights.rs"]
mod fights;
#[path = "engine/first.rs"]
mod first;
#[path = "engine/health.rs"]
mod health;
#[path = "engine/history.rs"]
mod history;
#[path = "engine/hook.rs"]
mod hook;
#[path = "engine/hung.rs"]
mod hung;
#[path = "engine/missing_kinds.rs"]
mod missing_kinds;
#[path = "engine/orphaning.rs"]
mod orphaning;
#[path = "engine/pivot.rs"]
mod pivot;
#[path = "engine/pruning.rs"]
mod pruning;
#[path = "engine/quiet.rs"]
mod quiet;
#[path = "engine/served_versions.rs"]
mod served_versions;
#[path = "engine/stored_versions.rs"]
mod stored_versions;
#[path = "engine/suspend.rs"]
mod suspend;
#[path = "deployments/tired.rs"]
mod tired;
#[path = "engine/transient.rs"]
mod transient;
#[path = "engine/unlistable.rs"]
mod unlistable;
#[path = "engine/upstream.rs"]
mod upstream;
#[path = "engine/waiting.rs"]
mod waiting;
#[path = "engine/way_back.rs"]
mod way_back;
#[path = "engine/worlds.rs"]
mod worlds;
