//! Many BundleDeployments of ten objects.

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt as _};
use rukpak_tests::verbs::{self, Expected, unique_name};
use rukpak_tests::world;
use rukpak_tests::{ImageBuilder, fixtures};
use serde_json::{Value, json};

use super::site::{Site, Usage};
use crate::bare::{self, Pattern};
use crate::created;

/// Objects of each.
pub const OBJECTS: usize = 10;
/// Text in each object.
const TEXT_BYTES: usize = 200;
/// BundleDeployments that are written at once.
const AT_ONCE: usize = 16;
/// Images that are pushed at once.
const PUSHES: usize = 4;
/// Longest wait for all.
const PATIENCE: Duration = Duration::from_mins(10);

/// BundleDeployments with two versions of an image each.
pub struct Fleet {
    label: String,
    members: Vec<Member>,
    /// The active Bundle of each, at the last look.
    active: BTreeMap<String, String>,
}

/// One of them.
pub struct Member {
    /// Its name, and the beginning of those of its objects.
    pub name: String,
    versions: [String; 2],
}

impl Fleet {
    /// Pushes all images.
    pub async fn push(site: &Site, count: usize) -> Result<Self> {
        let label = unique_name("fleet");
        let push = |index: usize| {
            let name = format!("{label}-{index}");
            async move {
                let mut files = fixtures::config_maps(&site.namespace, &name, OBJECTS, TEXT_BYTES);
                let one = site.world.push(&name, &ImageBuilder::of_files(files.clone())).await;
                if let Some((_, text)) = files.first_mut() {
                    *text = text.replace("value: x", "value: y");
                }
                let two = site.world.push(&format!("{name}-next"), &ImageBuilder::of_files(files)).await;
                Member { name, versions: [one, two] }
            }
        };
        let members = futures::stream::iter(0..count).map(push).buffered(PUSHES).collect().await;
        Ok(Self { label, members, active: BTreeMap::new() })
    }

    /// How many.
    pub fn count(&self) -> usize {
        self.members.len()
    }

    /// Their names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.members.iter().map(|member| member.name.as_str())
    }

    /// Creates all, until each is installed.
    pub async fn install(&mut self, site: &Site) -> Result<(Duration, Usage)> {
        let api = created::api(&site.admin, "BundleDeployment");
        let create = futures::stream::iter(&self.members)
            .map(|member| {
                let (api, label) = (&api, &self.label);
                async move {
                    let mut object = world::deployment(&member.name, world::image(&member.versions[0]));
                    object["metadata"]["labels"] = json!({"bench": label});
                    api.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
                    anyhow::Ok(())
                }
            })
            .buffer_unordered(AT_ONCE)
            .try_collect::<()>();
        let (time, usage, active) = self.reach(site, |_| true, create).await?;
        self.active = active;
        Ok((time, usage))
    }

    /// How long a bare client takes for the same writes as the installation of all of it, with the bytes of the first that was installed;
    /// it removes them again when the clock has stopped.
    pub async fn bare(&self, site: &Site) -> Result<Duration> {
        let deployments = created::api(&site.admin, "BundleDeployment");
        let (name, bundle) = self.active.first_key_value().context("it is installed")?;
        let pattern = Pattern {
            bundle_status: created::api(&site.admin, "Bundle").get(bundle).await?.data["status"].clone(),
            bundle_writes: 1,
            deployment_status: deployments.get(name).await?.data["status"].clone(),
            deployment_writes: 2,
        };
        let namespace = verbs::namespace(&site.admin, "bare").await?;
        let start = Instant::now();
        futures::stream::iter(0..self.count())
            .map(|index| {
                let (pattern, namespace, name) = (&pattern, &namespace, format!("{}-bare-{index}", self.label));
                async move {
                    let files = fixtures::config_maps(namespace, &name, OBJECTS, TEXT_BYTES);
                    let source = world::image("localhost:1/bare:v1");
                    bare::install(&site.account, &name, namespace, &source, &files, pattern).await.map(drop)
                }
            })
            .buffer_unordered(AT_ONCE)
            .try_collect::<()>()
            .await?;
        let time = start.elapsed();

        // What the garbage collector would do beside the next figure.
        let config_maps = Api::<ConfigMap>::namespaced(site.admin.clone(), &namespace);
        config_maps.delete_collection(&DeleteParams::default(), &ListParams::default()).await.context("remove them")?;
        for index in 0..self.count() {
            let name = format!("{}-bare-{index}", self.label);
            deployments.delete(&name, &DeleteParams::foreground()).await.context("remove them")?;
        }
        for index in 0..self.count() {
            let target = verbs::Target::bundle_deployment(&format!("{}-bare-{index}", self.label));
            verbs::await_deleted(&site.admin, &target, PATIENCE).await?;
        }
        Ok(time)
    }

    /// Names the second image in all, until each has it.
    pub async fn upgrade(&mut self, site: &Site) -> Result<(Duration, Usage)> {
        let api = created::api(&site.admin, "BundleDeployment");
        let patch = futures::stream::iter(&self.members)
            .map(|member| {
                let api = &api;
                async move {
                    let source = world::image(&member.versions[1]);
                    let patch = Patch::Merge(json!({"spec": {"template": {"spec": {"source": source}}}}));
                    api.patch(&member.name, &PatchParams::default(), &patch).await?;
                    anyhow::Ok(())
                }
            })
            .buffer_unordered(AT_ONCE)
            .try_collect::<()>();
        let before = &self.active;
        let is_new = |object: &DynamicObject| active(object) != before.get(&object.name_any()).map(String::as_str);
        let (time, usage, active) = self.reach(site, is_new, patch).await?;
        self.active = active;
        Ok((time, usage))
    }

    /// Deletes all, until nothing of them is left; or, orphaning, until nothing but their objects is.
    pub async fn remove(&self, site: &Site, parameters: DeleteParams) -> Result<(Duration, Usage)> {
        let api = created::api(&site.admin, "BundleDeployment");
        let before = site.usage().await?;
        let config = watcher::Config::default().labels(&format!("bench={}", self.label));
        let mut seen = pin!(watcher(api.clone(), config).default_backoff());
        while !matches!(seen.try_next().await.context("watch")?, Some(watcher::Event::InitDone)) {}
        let start = Instant::now();
        let delete = futures::stream::iter(self.names())
            .map(|name| {
                let (api, parameters) = (&api, &parameters);
                async move { api.delete(name, parameters).await.map(drop).context("delete") }
            })
            .buffer_unordered(AT_ONCE)
            .try_collect::<()>();
        let mut left = self.count();
        let gone = async {
            while left > 0 {
                let event = seen.try_next().await.context("watch")?.context("the watch ended")?;
                left -= usize::from(matches!(event, watcher::Event::Delete(_)));
            }
            Ok(())
        };
        tokio::time::timeout(PATIENCE, futures::future::try_join(delete, gone)).await.context("not gone in time")??;
        Ok((start.elapsed(), site.usage().await?.since(&before)))
    }

    /// Does something, and waits until a watch has shown every member installed and as it is to be.
    async fn reach(
        &self,
        site: &Site,
        is_wanted: impl Fn(&DynamicObject) -> bool,
        act: impl Future<Output = Result<()>>,
    ) -> Result<(Duration, Usage, BTreeMap<String, String>)> {
        let config = watcher::Config::default().labels(&format!("bench={}", self.label));
        let api = created::api(&site.admin, "BundleDeployment");
        let mut seen = pin!(watcher(api, config).default_backoff());
        while !matches!(seen.try_next().await.context("watch")?, Some(watcher::Event::InitDone)) {}
        let before = site.usage().await?;
        let start = Instant::now();
        let installed = Expected::is_true("Installed", "InstallationSucceeded");
        let mut reached = BTreeMap::new();
        let wait = async {
            while reached.len() < self.count() {
                let Some(event) = seen.try_next().await.context("watch")? else { bail!("the watch ended") };
                let (watcher::Event::Apply(object) | watcher::Event::InitApply(object)) = event else { continue };
                if is_current(&object) && installed.met_by(&object) && is_wanted(&object) {
                    reached.insert(object.name_any(), active(&object).unwrap_or_default().to_owned());
                }
            }
            Ok(())
        };
        let all = tokio::time::timeout(PATIENCE, futures::future::try_join(act, wait)).await;
        all.context("not all were installed in time")??;
        Ok((start.elapsed(), site.usage().await?.since(&before), reached))
    }
}

fn active(object: &DynamicObject) -> Option<&str> {
    object.data.pointer("/status/activeBundle").and_then(Value::as_str)
}

fn is_current(object: &DynamicObject) -> bool {
    object.data.pointer("/status/observedGeneration").and_then(Value::as_i64) == object.metadata.generation
}
