//! Has installed what a bundle depends on: a Plan asks, if somebody has to agree, and an object for each package has it installed. I/O.
//!
//! The objects are of the kind that needs them, and say so by a label. What becomes of them is their own business: the dependent waits until
//! all that it depends on is installed. Nothing here is remembered: who asks for a package, and what was agreed to, is in the cluster.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, OwnerReference};
use kube::api::{Patch, PatchParams, PostParams, Preconditions};
use kube::core::ClusterResourceScope;
use kube::{Api, Client, Resource, ResourceExt};
use rukpak_crds::names::{APPROVAL, DEPENDENCIES, IGNORE_DEPENDENCIES, INSTALLED_FOR, OWNER_NAME, WINDOWS};
use rukpak_crds::olm::cluster_extension::{CatalogFilter, ExtensionSource};
use rukpak_crds::olm::{CATALOG_NAME_LABEL, ClusterExtension, ClusterExtensionSpec};
use rukpak_crds::plan::{PlanApproval, PlanBinding, PlanPhase, PlanStatus, PlannedDependency};
use rukpak_crds::platform_operator::PlatformPackage;
use rukpak_crds::{DependencyPolicy, Plan, PlatformOperator, PlatformOperatorSpec};
use rukpak_plan::Owner;
use rukpak_plan::approval::{Answer, Question, is_genuine};
use rukpak_resolver::set::{Member, Needy, find};
use rukpak_runtime::api::Error;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::{Dependencies, Dependent};
use crate::catalogs::{AtHand, Catalogs, named};
use crate::owned;

/// Who writes, in `managedFields`.
const FIELD_MANAGER: &str = "rukpak-dependencies";
/// So many Plans are kept for one object.
const KEPT: usize = 5;

/// An object whose bundle depends on others.
pub(crate) enum Asking<'a> {
    Operator(&'a PlatformOperator),
    Extension(&'a ClusterExtension),
}

impl Asking<'_> {
    /// What waits for another pass over it.
    pub fn dependent(&self) -> Dependent {
        match self {
            Self::Operator(operator) => Dependent::Operator(operator.name_any()),
            Self::Extension(extension) => Dependent::Extension(extension.name_any()),
        }
    }

    /// Whether the object has the annotation `key` with the value `true`.
    pub fn says(&self, key: &str) -> bool {
        let annotations = match self {
            Self::Operator(operator) => operator.annotations(),
            Self::Extension(extension) => extension.annotations(),
        };
        annotations.get(key).is_some_and(|said| said == "true")
    }

    fn uid(&self) -> String {
        let uid = match self {
            Self::Operator(operator) => operator.uid(),
            Self::Extension(extension) => extension.uid(),
        };
        uid.unwrap_or_default()
    }

    /// What becomes of packages that are not installed.
    ///
    /// # Errors
    /// The annotation has another value. In words.
    pub fn policy(&self) -> Result<DependencyPolicy, String> {
        match self {
            Self::Operator(operator) => Ok(operator.spec.dependencies.unwrap_or_default()),
            Self::Extension(extension) => match extension.annotations().get(DEPENDENCIES) {
                None => Ok(DependencyPolicy::default()),
                Some(said) => serde_json::from_value(json!(said))
                    .map_err(|_| format!("annotation {DEPENDENCIES}: {said:?} is none of Refuse, Propose and Install")),
            },
        }
    }

    /// Where the policy is written.
    pub fn place(&self) -> String {
        match self {
            Self::Operator(_) => "spec.dependencies".to_owned(),
            Self::Extension(_) => format!("the annotation {DEPENDENCIES}"),
        }
    }

    fn owner(&self) -> Owner {
        Owner { name: self.dependent().deployment(), uid: self.uid() }
    }

    /// Returns the owner reference of a Plan of the object.
    fn reference(&self) -> Option<OwnerReference> {
        match self {
            Self::Operator(operator) => operator.controller_owner_ref(&()),
            Self::Extension(extension) => extension.controller_owner_ref(&()),
        }
    }
}

impl Dependencies {
    /// Does about what `needy` depends on and is not installed what the policy says; returns what is waited for, or what would help.
    pub async fn obtain(
        &self,
        asking: &Asking<'_>,
        policy: DependencyPolicy,
        needy: &Needy,
        (catalogs, client): (&Catalogs, &Client),
    ) -> Result<String, Error> {
        self.learn(catalogs).await;
        let at_hand = match asking {
            Asking::Operator(_) => AtHand::All,
            Asking::Extension(_) => AtHand::ClusterCatalogs,
        };
        let offered = catalogs.contents(at_hand).await;
        let installed = self.others(&needy.package, &self.installed());
        let needy_bundle = needy.clone();
        let found = tokio::task::spawn_blocking(move || find(&needy_bundle, installed, &offered)).await;
        // Blocking work is never cancelled once it runs.
        let found = found.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
        let place = asking.place();
        match way(found, (policy, place.as_str()), |package| self.is_asked_for(package)) {
            Way::Tell(text) => Ok(text),
            Way::Install { new, is_asked_about, waiting } => {
                if is_asked_about && let Some(waiting) = self.ask(asking, needy, &new, client).await? {
                    return Ok(waiting);
                }
                for member in &new {
                    if let Some(obstacle) = create(asking, member, client).await? {
                        return Ok(obstacle);
                    }
                }
                Ok(waiting)
            }
        }
    }

    /// Whether somebody asks for the package.
    fn is_asked_for(&self, package: &str) -> bool {
        self.asked().iter().any(|(_, asked)| asked == package)
    }

    /// Asks whether these may be installed. Returns what is waited for; nothing if that was agreed to.
    pub async fn ask(
        &self,
        asking: &Asking<'_>,
        needy: &Needy,
        new: &[Member],
        client: &Client,
    ) -> Result<Option<String>, Error> {
        let owner = asking.owner();
        let known = self.plans_of(&owner);
        // What is left of a set that was agreed to needs no other yes.
        let bundle = &needy.bundle;
        let content = format!("{} {}", bundle.name, bundle.image.as_deref().unwrap_or_default());
        let is_of_set = |plan: &Plan| {
            let agreed = &plan.spec.binds.dependencies;
            plan.spec.binds.content == content && new.iter().all(|member| agreed.contains(&member.dependency))
        };
        if known.iter().any(|plan| plan.spec.approval == Some(PlanApproval::Approved) && is_of_set(plan)) {
            return Ok(None);
        }
        let dependencies: Vec<PlannedDependency> = new.iter().map(|member| member.dependency.clone()).collect();
        let summary = format!("installs {} for {}", in_words(&dependencies), bundle.name);
        let binds = PlanBinding { content, dependencies, ..PlanBinding::default() };
        let mut question = Question::new(&owner, binds, None, PlanStatus { summary, ..PlanStatus::default() });
        let api: Api<Plan> = Api::all(client.clone());
        let plan = match api.get_opt(&question.name).await? {
            Some(plan) => plan,
            None => api.create(&params(), &plan(asking, &question)).await?,
        };
        if !is_genuine(&plan, &owner) || plan.spec.digest != question.spec.digest {
            let name = &question.name;
            return Ok(Some(format!("Plan {name} was not made for this: delete it, and it is made anew")));
        }
        question.answer = match plan.spec.approval {
            Some(PlanApproval::Approved) => Answer::Yes,
            Some(PlanApproval::Rejected) => Answer::No,
            None => Answer::None,
        };
        say(&plan, &question.status(), client).await?;
        self.expire(&known, &question.name, client).await?;
        Ok(question.problem().map(|problem| problem.message))
    }

    /// Says of the Plans of an object that has all that it depends on that they are over.
    pub async fn settle(&self, asking: &Asking<'_>, client: &Client) -> Result<(), Error> {
        self.expire(&self.plans_of(&asking.owner()), "", client).await
    }

    /// Says of all Plans but `current` that they are over, and deletes the oldest. Nothing is current where nothing is asked.
    async fn expire(&self, plans: &[Plan], current: &str, client: &Client) -> Result<(), Error> {
        let others = plans.iter().filter(|plan| plan.name_any() != current);
        // What was agreed to and is asked for no more must not count if it is asked for again.
        let is_agreed = |plan: &&Plan| plan.spec.approval == Some(PlanApproval::Approved);
        let (mut left, mut over): (Vec<&Plan>, Vec<&Plan>) =
            others.partition(|plan| !current.is_empty() && is_agreed(plan));
        for plan in &over {
            let status = plan.status.clone().unwrap_or_default();
            if status.phase.is_over() {
                continue;
            }
            let (phase, message) = if is_agreed(plan) {
                (PlanPhase::Applied, "")
            } else {
                (PlanPhase::Expired, "something else is asked for by now, or nothing")
            };
            say(plan, &PlanStatus { phase, message: message.to_owned(), ..status }, client).await?;
        }
        over.sort_by_key(|plan| std::cmp::Reverse(plan.metadata.creation_timestamp.clone()));
        left.extend(over.into_iter().skip(KEPT));
        for plan in left {
            let preconditions = Preconditions { uid: plan.uid(), resource_version: None };
            owned::delete(&Api::<Plan>::all(client.clone()), &plan.name_any(), preconditions).await?;
        }
        Ok(())
    }

    fn plans_of(&self, owner: &Owner) -> Vec<Plan> {
        let plans = self.stores.plans.state();
        plans.iter().filter(|plan| is_genuine(plan, owner)).map(|plan| Plan::clone(plan)).collect()
    }
}

/// What is done about what is missing.
pub(crate) enum Way {
    /// Nothing; this is said.
    Tell(String),
    /// These are installed, after somebody has agreed if they are asked about, and waited for with what somebody else installs.
    Install { new: Vec<Member>, is_asked_about: bool, waiting: String },
}

/// What is done where `found` helps, by the policy, which is written at `place`. Pure.
pub(crate) fn way(
    found: Result<Vec<Member>, String>,
    (policy, place): (DependencyPolicy, &str),
    is_asked_for: impl Fn(&str) -> bool,
) -> Way {
    let members = match found {
        Ok(members) if members.is_empty() => return Way::Tell("it is looked at again".to_owned()),
        Ok(members) => members,
        Err(why) => return Way::Tell(format!("nothing in the catalogs helps: {why}")),
    };
    let (coming, new): (Vec<Member>, Vec<Member>) =
        members.into_iter().partition(|member| is_asked_for(&member.dependency.package));
    if policy == DependencyPolicy::Refuse && !new.is_empty() {
        let listed = in_words(new.iter().map(|member| &member.dependency));
        return Way::Tell(format!(
            "what helps is to install {listed}: {place} Propose asks for that, and Install does it"
        ));
    }

    let all: Vec<&PlannedDependency> = coming.iter().chain(&new).map(|member| &member.dependency).collect();
    let verb = if all.len() == 1 { "is" } else { "are" };
    let waiting = format!("waiting until {} {verb} installed", in_words(all));
    let is_asked_about = policy == DependencyPolicy::Propose && !new.is_empty();
    Way::Install { new, is_asked_about, waiting }
}

/// For people: `wells 1.2.0 (catalog c) and springs 2.0.0 (catalog c)`.
fn in_words<'a>(members: impl IntoIterator<Item = &'a PlannedDependency>) -> String {
    let called = |one: &PlannedDependency| format!("{} {} (catalog {})", one.package, one.version, one.catalog);
    let names: Vec<String> = members.into_iter().map(called).collect();
    match names.as_slice() {
        [] => String::new(),
        [only] => only.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

fn params() -> PostParams {
    PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() }
}

fn plan(asking: &Asking<'_>, question: &Question) -> Plan {
    let mut plan = Plan::new(&question.name, question.spec.clone());
    let deployment = asking.dependent().deployment();
    plan.metadata.labels = Some([INSTALLED_FOR, OWNER_NAME].map(|label| (label.to_owned(), deployment.clone())).into());
    plan.metadata.owner_references = asking.reference().map(|reference| vec![reference]);
    plan
}

/// Makes `status` the status of a Plan, if it is not.
async fn say(plan: &Plan, status: &PlanStatus, client: &Client) -> Result<(), Error> {
    if plan.status.as_ref() == Some(status) {
        return Ok(());
    }
    let body = json!({"metadata": {"uid": plan.uid()}, "status": status});
    let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    let written = Api::<Plan>::all(client.clone()).patch_status(&plan.name_any(), &params, &Patch::Merge(body)).await;
    match written.map_err(Error::from) {
        Err(error) if !error.is_not_found() && !error.is_conflict() => Err(error),
        _ => Ok(()),
    }
}

/// Creates the object that has a package installed. Returns what keeps it from being created, if something does.
async fn create(asking: &Asking<'_>, member: &Member, client: &Client) -> Result<Option<String>, Error> {
    // It may have been deleted, and nothing would ever delete what is created for it.
    match asking {
        Asking::Operator(dependent) => owned::check_owner(*dependent, client).await?,
        Asking::Extension(dependent) => owned::check_owner(*dependent, client).await?,
    }
    let created = match asking {
        Asking::Operator(dependent) => create_object(operator(dependent, member), client).await,
        Asking::Extension(dependent) => create_object(extension(dependent, member), client).await,
    };
    let (kind, package) = (asking.dependent().kind(), &member.dependency.package);
    let name = object_name(asking, package);
    match created {
        Ok(()) => {
            tracing::info!(%kind, name, dependent = %asking.dependent(), "created for what depends on its package");
            Ok(None)
        }
        // The watch has not shown it yet, or it is for another package.
        Err(error) if error.is_conflict() => Ok(Some(format!(
            "waiting until {kind} {name} is known; if it is for another package than {package}, make a {kind} for that one"
        ))),
        Err(error) => Err(error),
    }
}

async fn create_object<K>(object: K, client: &Client) -> Result<(), Error>
where
    K: Resource<DynamicType = (), Scope = ClusterResourceScope>
        + Clone
        + std::fmt::Debug
        + Serialize
        + DeserializeOwned,
{
    Api::<K>::all(client.clone()).create(&params(), &object).await.map(drop).map_err(Error::from)
}

/// The name of the object for a package: that of its BundleDeployment as well.
fn object_name(asking: &Asking<'_>, package: &str) -> String {
    match asking {
        Asking::Operator(_) => Dependent::Extension(package.to_owned()).deployment(),
        Asking::Extension(_) => package.to_owned(),
    }
}

/// Whose it is, and how it is asked about.
fn marks(asking: &Asking<'_>, member: &Member) -> (BTreeMap<String, String>, BTreeMap<String, String>) {
    let labels = [(INSTALLED_FOR.to_owned(), asking.dependent().deployment())].into();
    let mut annotations = BTreeMap::new();
    if member.is_in_cycle {
        // It is installed beside what it depends on, and that waits for it.
        annotations.insert(IGNORE_DEPENDENCIES.to_owned(), "true".to_owned());
    }
    (labels, annotations)
}

fn operator(dependent: &PlatformOperator, member: &Member) -> PlatformOperator {
    let asking = Asking::Operator(dependent);
    let PlannedDependency { package, version, channel, catalog, .. } = member.dependency.clone();
    let name = object_name(&asking, &package);
    let package = PlatformPackage {
        name: package,
        channel: Some(channel).filter(|channel| !channel.is_empty()),
        version: Some(version),
        catalog: Some(catalog),
    };
    let spec = PlatformOperatorSpec { package, dependencies: None, ..dependent.spec.clone() };
    let mut made = PlatformOperator::new(&name, spec);
    let (labels, annotations) = marks(&asking, member);
    made.metadata.labels = Some(labels);
    made.metadata.annotations = Some(annotations);
    made
}

fn extension(dependent: &ClusterExtension, member: &Member) -> ClusterExtension {
    let asking = Asking::Extension(dependent);
    let PlannedDependency { package, version, channel, catalog, .. } = member.dependency.clone();
    let name = object_name(&asking, &package);
    let selector = LabelSelector {
        match_labels: Some([(CATALOG_NAME_LABEL.to_owned(), named(&catalog).to_owned())].into()),
        ..LabelSelector::default()
    };
    let filter = CatalogFilter {
        package_name: package,
        version: Some(version),
        channels: Some(channel).filter(|channel| !channel.is_empty()).into_iter().collect(),
        selector: Some(selector),
        ..CatalogFilter::default()
    };
    let spec = ClusterExtensionSpec {
        namespace: dependent.spec.namespace.clone(),
        source: ExtensionSource { catalog: Some(filter), ..ExtensionSource::default() },
        ..ClusterExtensionSpec::default()
    };
    let mut made = ClusterExtension::new(&name, spec);
    let (labels, mut annotations) = marks(&asking, member);
    let said = dependent.annotations().iter().filter(|(key, _)| [APPROVAL, WINDOWS].contains(&key.as_str()));
    annotations.extend(said.map(|(key, value)| (key.clone(), value.clone())));
    made.metadata.labels = Some(labels);
    made.metadata.annotations = Some(annotations);
    made
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::fixtures::not_found;

    #[tokio::test]
    async fn nothing_is_created_for_a_dependent_that_is_gone() {
        let source = json!({"sourceType": "Catalog", "catalog": {"packageName": "p"}});
        let extension = json!({"metadata": {"name": "p", "uid": "u"}, "spec": {"namespace": "ns", "source": source}});
        let extension: ClusterExtension = serde_json::from_value(extension).unwrap();
        let operator = json!({"metadata": {"name": "p", "uid": "u"}, "spec": {"package": {"name": "p"}}});
        let operator: PlatformOperator = serde_json::from_value(operator).unwrap();
        let wells = PlannedDependency { package: "wells".to_owned(), ..PlannedDependency::default() };
        let wells = Member { dependency: wells, is_in_cycle: false };
        for asking in [Asking::Extension(&extension), Asking::Operator(&operator)] {
            let (client, writes) = not_found();
            assert!(create(&asking, &wells, &client).await.unwrap_err().is_not_found());
            assert_eq!(writes.load(Ordering::Relaxed), 0, "{}", asking.dependent());
        }
    }
}
