//! What a deployment in deletion still waits for.

use crate::deployment::observe::Run;

/// So many objects are named while a deletion takes its time.
const NAMED: usize = 5;

/// Objects that a deployment in deletion still waits for: each with what holds it up.
pub(in crate::deployment) async fn leftovers(run: &Run) -> Vec<String> {
    let observed = run.context.dependents.of(&run.owner);
    let mut lines = Vec::new();
    for (key, observed) in &observed {
        if lines.len() == NAMED {
            lines.push("and others".to_owned());
            break;
        }
        let identity = observed.identity(key);
        let Ok(Some(metadata)) = run.context.cluster.reader.metadata(&identity).await else { continue };
        lines.push(match metadata.deletion_timestamp {
            None => format!("{identity} is not deleted yet"),
            Some(_) => rukpak_plan::prune::waits(&identity, &metadata),
        });
    }
    lines
}
