//! Following the channel's graph: one safe step at a time, in place, and only where the policy says so. I/O.

use std::sync::Arc;

use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use rukpak_catalog::choose::{self, Choice, Request};
use rukpak_catalog::graph::{self, Installed};
use rukpak_catalog::{Bundle, Package, Version};
use rukpak_crds::{BundleDeployment, ChosenSource, UpgradePolicy, names};
use rukpak_plan::retry::Class;
use rukpak_runtime::api;
use rukpak_runtime::error::Chain;
use serde_json::json;

use super::deployment::{FIELD_MANAGER, image};
use super::source::{Chosen, Ignored};
use super::standing::{is_in_order, is_installed, is_refused};
use super::step::{Step, UpgradeState};
use super::{Error, Outcome, Pass, lookup, source};
use crate::catalogs::Found;
use crate::dependencies::Dependent;
use crate::dependencies::dependents::would_break;
use crate::dependencies::obtain::Asking;

/// The policy leaves it to a person.
const MANUAL: &str = "ManualPolicy";
/// What is installed is not in order.
const NOT_READY: &str = "InstalledVersionNotReady";
/// The next version cannot be installed.
const UNSUPPORTED: &str = "Unsupported";
/// What the next version depends on is to be installed first.
const DEPENDENCIES: &str = "Dependencies";
/// The next version would leave others without what they need.
const DEPENDENTS: &str = "Dependents";
/// The catalog cannot be asked, or has the package no more.
const CATALOG_FAILED: &str = "CatalogFailed";
/// The channel is not there.
const NO_SUCH_CHANNEL: &str = "NoSuchChannel";
/// What is installed is not in the range that is asked for, and no step leads into it.
const NOT_IN_RANGE: &str = "VersionNotInRange";
/// The API server refused the change.
const UPGRADE_FAILED: &str = "UpgradeFailed";
/// The spec cannot be understood.
const INVALID: &str = "InvalidVersionRange";

/// Looks for the next version, and takes the step if it is to be taken. `None` if something changed meanwhile that wakes us again.
pub(super) async fn follow(pass: &mut Pass, deployment: Arc<BundleDeployment>) -> Result<Option<Outcome>, Error> {
    Ok(match look(pass, &deployment).await {
        NextStep::Known(upgrade) => Some(Outcome::Deployed { deployment, upgrade }),
        NextStep::Next { next, deprecations } => Some(take(pass, deployment, next, deprecations).await?),
        NextStep::Superseded => None,
    })
}

enum NextStep {
    Known(UpgradeState),
    Next {
        next: Chosen,
        deprecations: Vec<String>,
    },
    /// What this is about is another by now.
    Superseded,
}

/// An upgrade that was noted has been made once the BundleDeployment has installed it: until then the version before runs, and
/// that is what the status says. The note also stays while the request of a process that was killed may still be on its way.
pub(super) fn settle(pass: &mut Pass, deployment: &BundleDeployment) {
    let is_made = is_pointed(pass, deployment) && is_installed(pass, deployment);
    if let Some(upgrade) = pass.status.upgrade.take_if(|_| is_made) {
        pass.status.source = Some(upgrade);
    }
}

/// Whether the BundleDeployment asks for the upgrade that was noted.
fn is_pointed(pass: &Pass, deployment: &BundleDeployment) -> bool {
    pass.status.upgrade.as_ref().is_some_and(|upgrade| image(deployment) == Some(&upgrade.image))
}

/// What needs no catalog: the BundleDeployment is not what it was made, or another package is asked for.
pub(super) fn decided(pass: &Pass, deployment: &BundleDeployment) -> Option<UpgradeState> {
    let source = pass.status.source.as_ref()?;
    let step = if source.package != pass.operator.spec.package.name {
        Step::OtherPackage(other_package(pass, source))
    } else if image(deployment) != Some(&source.image) && !is_pointed(pass, deployment) {
        Step::Edited(edited(deployment, Some(source)))
    } else {
        return None;
    };
    // What the catalog says of it is not about what is installed.
    Some(UpgradeState { step, deprecations: Some(Vec::new()), retry: None })
}

async fn look(pass: &mut Pass, deployment: &BundleDeployment) -> NextStep {
    let known = pass.status.source.clone();
    let found = match lookup::package(pass, Some(deployment)).await {
        None => return NextStep::Superseded,
        Some(Ok(found)) => found,
        Some(Err(error)) => {
            let step = Step::Unknown { reason: CATALOG_FAILED, message: Chain(&error).to_string() };
            let retry = error.is_unwatched().then(|| error.class());
            return NextStep::Known(UpgradeState { step, deprecations: None, retry });
        }
    };
    let Some(source) = known.or_else(|| recognised(&found, deployment)) else {
        let step = Step::Edited(edited(deployment, None));
        return NextStep::Known(UpgradeState { step, deprecations: Some(Vec::new()), retry: None });
    };
    pass.status.source = Some(source.clone());
    next(pass, deployment, &found, &source).await
}

/// An installation that OpenShift's manager made notes nothing of where it came from.
fn recognised(found: &Found, deployment: &BundleDeployment) -> Option<ChosenSource> {
    let package = found.package();
    let bundle = package.bundle_of_image(image(deployment)?)?;
    let choice = choose::described(package, &bundle.name, None)?;
    Some(source::chosen(&found.catalog, &package.name, &choice))
}

async fn next(pass: &Pass, deployment: &BundleDeployment, found: &Found, source: &ChosenSource) -> NextStep {
    let package = found.package();
    let known =
        |step, deprecations| NextStep::Known(UpgradeState { step, deprecations: Some(deprecations), retry: None });
    let described = choose::described(package, &source.bundle, source.channel.as_deref());
    let deprecations = described.map(|choice| choice.deprecations).unwrap_or_default();
    let mut request = match source::request(&pass.operator) {
        Ok(request) => request,
        Err(error) => {
            let message = format!("spec.package.version: {error}");
            return known(Step::Unknown { reason: INVALID, message }, deprecations);
        }
    };
    request.channel = request.channel.or_else(|| source.channel.clone());
    let version = Version::parse(&source.version).ok();
    let installed = Installed { name: &source.bundle, version: version.as_ref() };
    if let Some(missing) = request.channel.as_ref().filter(|name| !package.channels.contains_key(*name)) {
        let there: Vec<&str> = package.channels.keys().map(String::as_str).collect();
        let message = format!("spec.package.channel: there is no channel {missing:?}; there are {}", there.join(", "));
        return known(Step::Unknown { reason: NO_SUCH_CHANNEL, message }, deprecations);
    }
    let choice = graph::successor(package, installed, &request);
    let pointed = pass.status.upgrade.as_ref().filter(|_| is_pointed(pass, deployment));
    if let Some(pointed) = pointed {
        let is_same = choice.as_ref().is_none_or(|choice| choice.bundle.name == pointed.bundle);
        match is_refused(deployment) {
            false => return known(Step::Taken, deprecations),
            true if is_same => return known(refused(source, pointed), deprecations),
            true => {}
        }
    }
    let Some(choice) = choice else {
        return known(unreachable(package, &request, source, version.as_ref()), deprecations);
    };
    let settled = pass.context.dependencies.settled();
    if lookup::unless_superseded(pass, Some(deployment), settled).await.is_none() {
        return NextStep::Superseded;
    }
    let choice = match harmless(pass, package, installed, &request, choice) {
        Ok(choice) => choice,
        Err(step) => return known(step, deprecations),
    };
    take_if_due(pass, deployment, found, (source, &choice), deprecations).await
}

/// Says what keeps the choice from being taken; the choice, if nothing does.
async fn take_if_due(
    pass: &Pass,
    deployment: &BundleDeployment,
    found: &Found,
    (source, choice): (&ChosenSource, &Choice<'_>),
    deprecations: Vec<String>,
) -> NextStep {
    let known =
        |step, deprecations| NextStep::Known(UpgradeState { step, deprecations: Some(deprecations), retry: None });
    let next = source::chosen(&found.catalog, &found.package().name, choice);
    let offered = format!("Version {} ({}) can replace version {}", next.version, next.bundle, source.version);
    let available = |reason, why: &str| Step::Available { reason, message: format!("{offered}; {why}") };
    if pass.operator.spec.upgrade_policy.unwrap_or_default() == UpgradePolicy::Manual {
        let why = "set spec.upgradePolicy to Automatic to have it installed";
        return known(available(MANUAL, why), deprecations);
    }
    // What was refused left the version before running: a version that skips it is built on that one.
    let is_pointed = is_pointed(pass, deployment);
    if !is_pointed && !is_in_order(pass, deployment) {
        return known(available(NOT_READY, "waiting until what is installed is ready"), deprecations);
    }
    let supported = source::supported(pass, found, choice);
    match lookup::unless_superseded(pass, Some(deployment), supported).await {
        None => NextStep::Superseded,
        Some(Ok(dependencies)) => NextStep::Next { next: Chosen { source: next, dependencies }, deprecations },
        Some(Err(error @ (source::Error::Unsupported(_) | source::Error::Unmet { .. } | source::Error::Digest(_)))) => {
            known(available(UNSUPPORTED, &error.to_string()), deprecations)
        }
        Some(Err(error @ source::Error::Obtaining(_))) => {
            known(available(DEPENDENCIES, &error.to_string()), deprecations)
        }
        Some(Err(error)) => {
            let step = Step::Unknown { reason: CATALOG_FAILED, message: Chain(&error).to_string() };
            NextStep::Known(UpgradeState { step, deprecations: Some(deprecations), retry: Some(error.class()) })
        }
    }
}

/// The choice, or another one that leaves nobody without what they need.
fn harmless<'a>(
    pass: &Pass,
    package: &'a Package,
    installed: Installed<'_>,
    request: &Request,
    choice: Choice<'a>,
) -> Result<Choice<'a>, Step> {
    if Asking::Operator(&pass.operator).says(names::IGNORE_DEPENDENTS) {
        return Ok(choice);
    }
    let known = &pass.context.dependencies;
    if known.demanding_dependents().broken_by(&package.name, choice.bundle).is_empty() {
        return Ok(choice);
    }
    // From here on it is told when something else is installed.
    let dependents = known.dependents_for(&Dependent::Operator(pass.name.clone()));
    let broken = |bundle: &Bundle| dependents.broken_by(&package.name, bundle);
    let by_choice = broken(choice.bundle);
    if by_choice.is_empty() {
        return Ok(choice);
    }
    let mut kept = package.clone();
    kept.bundles.retain(|_, bundle| broken(bundle).is_empty());
    let other = graph::successor(&kept, installed, request).map(|other| other.bundle.name.clone());
    let other = other.and_then(|name| choose::described(package, &name, request.channel.as_deref()));
    other.ok_or_else(|| {
        let Bundle { name, version_text, .. } = choice.bundle;
        let message = format!("Version {version_text} ({name}) is not installed: {}", would_break(&by_choice));
        Step::Available { reason: DEPENDENTS, message }
    })
}

/// The next step was refused, and the catalog knows no other.
fn refused(source: &ChosenSource, next: &ChosenSource) -> Step {
    let message = format!(
        "Version {} ({}) was to replace version {} and was refused; it is installed when the cause is fixed, or another \
         version that replaces {} when the catalog has one",
        next.version, next.bundle, source.version, source.version
    );
    Step::Available { reason: NOT_READY, message }
}

/// No step leads on: this is the newest, unless another one is asked for.
fn unreachable(package: &Package, request: &Request, source: &ChosenSource, version: Option<&Version>) -> Step {
    let Some(range) = request.range.as_ref() else { return Step::Newest };
    if version.is_some_and(|version| range.contains(version)) {
        return Step::Newest;
    }
    let versions = package.bundles.values().filter_map(|bundle| bundle.version.as_ref());
    let mut wanted = versions.filter(|wanted| range.contains(wanted)).peekable();
    let is_below = wanted.peek().is_some() && wanted.all(|wanted| version.is_some_and(|version| wanted < version));
    let why = if is_below {
        "which is higher than all of that range, and nothing goes back by itself: make the range hold it, or set the image of \
         the BundleDeployment to that of a lower version"
    } else {
        "and no single step of the channel leads from it into that range; widen the range so that it holds the versions in \
         between"
    };
    let message = format!(
        "Version {} is installed, which is not in spec.package.version {:?}, {why}",
        source.version,
        range.as_str()
    );
    Step::Unreachable { reason: NOT_IN_RANGE, message }
}

/// Notes the step, then points the BundleDeployment at the next version, unless somebody changed it meanwhile.
async fn take(
    pass: &mut Pass,
    old: Arc<BundleDeployment>,
    Chosen { source: next, dependencies }: Chosen,
    deprecations: Vec<String>,
) -> Result<Outcome, Error> {
    tracing::info!(operator = pass.name, bundle = next.bundle, "upgrading PlatformOperator");
    source::warn_of_tag(&pass.name, &next);
    let mut status = pass.status.clone();
    status.upgrade = Some(next.clone());
    pass.write(status).await?;
    match point(pass, &old, &next, dependencies).await {
        Ok(deployment) => {
            pass.context.written.record(&deployment);
            pass.status.upgrade = Some(next);
            let upgrade = UpgradeState { step: Step::Taken, deprecations: Some(deprecations), retry: None };
            Ok(Outcome::Deployed { deployment: Arc::new(deployment), upgrade })
        }
        // Somebody was faster, or the request may still be on its way: then the note stays.
        Err(error) if error.is_conflict() || error.is_not_found() || error.is_transient() => Err(Error::Upgrade(error)),
        Err(error) => {
            pass.status.upgrade = None;
            let message = format!("Version {} ({}) cannot be installed: {error}", next.version, next.bundle);
            let step = Step::Available { reason: UPGRADE_FAILED, message };
            let upgrade = UpgradeState { step, deprecations: Some(deprecations), retry: Some(Class::Terminal) };
            Ok(Outcome::Deployed { deployment: old, upgrade })
        }
    }
}

async fn point(
    pass: &Pass,
    old: &BundleDeployment,
    next: &ChosenSource,
    dependencies: Ignored,
) -> Result<BundleDeployment, api::Error> {
    let mut patch = json!({
        "metadata": {"resourceVersion": old.resource_version(), "uid": old.uid()},
        "spec": {"template": {"spec": {"source": {"image": {"ref": next.image}}}}},
    });
    let said = old.annotations().get(names::IGNORE_DEPENDENCIES).map(String::as_str);
    // Whoever said more on the BundleDeployment is not contradicted.
    let is_said = match dependencies {
        Some(names::PACKAGES) => said == Some("true"),
        Some(_) => false,
        None => said != Some(names::PACKAGES),
    };
    if !is_said {
        patch["metadata"]["annotations"] = json!({names::IGNORE_DEPENDENCIES: dependencies});
    }
    let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    let api: Api<BundleDeployment> = Api::all(pass.context.client.clone());
    Ok(api.patch(&pass.name, &params, &Patch::Merge(patch)).await?)
}

fn edited(deployment: &BundleDeployment, source: Option<&ChosenSource>) -> String {
    let image = image(deployment).unwrap_or("another source");
    let way_out = source.map_or_else(
        || "set its image to one that the catalog has to have upgrades followed".to_owned(),
        |source| format!("set its image to {} to have upgrades followed again", source.image),
    );
    format!("The BundleDeployment was edited to install {image}; it is left as it is: {way_out}")
}

fn other_package(pass: &Pass, source: &ChosenSource) -> String {
    let (name, package) = (&pass.name, &pass.operator.spec.package.name);
    format!(
        "Package {} is installed, but spec.package.name is {package}: put it back and make another PlatformOperator for \
         {package}; deleting PlatformOperator {name} deletes what it has installed",
        source.package
    )
}
