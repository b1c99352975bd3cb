//! The OLMConfig: it is told that nothing is copied, whatever it asks for.

use std::sync::Arc;

use jiff::Timestamp;
use kube::core::PartialObjectMeta;
use kube::runtime::controller::Action;
use kube::{Resource, ResourceExt};
use rukpak_crds::olmv0::OLMConfig;
use rukpak_crds::olmv0::olm_config::{NAME, OLMConfigStatus};
use rukpak_crds::{Condition, ConditionStatus};
use rukpak_runtime::status::StatusWriter;

use super::context::Context;
use crate::outcome::Error;

/// OLM's words.
const MESSAGE: &str =
    "Copied CSVs are disabled and no unexpected copied CSVs were found for operators installed in AllNamespace mode";

/// One pass over an OLMConfig. What it says itself is not even read.
pub(super) async fn reconcile(
    config: Arc<PartialObjectMeta<OLMConfig>>,
    context: Arc<Context>,
) -> Result<Action, Error> {
    let is_over = config.meta().deletion_timestamp.is_some() || !context.gate.is_open();
    // As we left it, it says what it is to say.
    let is_told = context.written.is_stale(&*config) || context.written.is_last(&*config);
    if is_over || is_told || config.name_any() != NAME {
        return Ok(Action::await_change());
    }

    let mut writer = StatusWriter::new(&context.client, &*config, None::<&OLMConfigStatus>);
    writer.write(&status(&config), &context.written).await.map_err(Error::Status)?;
    Ok(Action::await_change())
}

/// What the status says. Pure.
fn status(config: &PartialObjectMeta<OLMConfig>) -> OLMConfigStatus {
    let condition = Condition {
        type_: "DisabledCopiedCSVs".to_owned(),
        status: ConditionStatus::True,
        reason: "CopiedCSVsDisabled".to_owned(),
        message: MESSAGE.to_owned(),
        observed_generation: config.meta().generation,
        // It was never another.
        last_transition_time: config.creation_timestamp().map_or(Timestamp::UNIX_EPOCH, |time| time.0),
    };
    OLMConfigStatus { conditions: vec![condition] }
}
