//! Plans, and the answers to them.

use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use rukpak_crds::{Plan, PlanApproval};
use serde_json::json;

use super::{Cluster, Error, FIELD_MANAGER};

impl Cluster {
    /// All Plans. A cluster without the kind refuses with 404.
    pub async fn plans(&self) -> Result<Vec<Plan>, Error> {
        let plans: Api<Plan> = Api::all(self.client.clone());
        Ok(plans.list(&ListParams::default()).await.map_err(|error| self.fault(error))?.items)
    }

    /// A Plan, which must be there.
    pub async fn plan(&self, name: &str) -> Result<Plan, Error> {
        Api::<Plan>::all(self.client.clone()).get(name).await.map_err(|error| self.fault(error))
    }

    /// Answers this very Plan, and no other that has taken its name since.
    pub async fn answer_plan(&self, plan: &Plan, approval: PlanApproval) -> Result<Plan, Error> {
        let plans: Api<Plan> = Api::all(self.client.clone());
        let parameters = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let patch = json!({"metadata": {"uid": plan.uid()}, "spec": {"approval": approval}});
        plans.patch(&plan.name_any(), &parameters, &Patch::Merge(patch)).await.map_err(|error| self.fault(error))
    }
}
