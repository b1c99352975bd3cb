//! Tells what a bundle's author should know although nothing refuses the bundle.

use rukpak_plain::Few;

use crate::load::{Bundle, Manifest};
use crate::metadata;
use crate::render::additional::GeneratedServices;

impl Bundle {
    /// What does not refuse the bundle but is not as its author thinks, one line each: the first of them, shortened.
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = Few::default();
        self.remark_metadata(&mut remarks);
        self.warnings.iter().for_each(|warning| remarks.push_with(|| warning.to_string()));
        remarks.skip(self.warnings.more());
        for (index, deployment) in self.csv.spec.install.spec.deployments.iter().enumerate() {
            for field in &deployment.unknown_fields {
                remarks.push_with(|| {
                    let place = self.origin_of(&format!("spec.install.spec.deployments[{index}].{field}"));
                    format!("{place}: Kubernetes does not know this field: it is left out")
                });
            }
            remarks.skip(deployment.unknown_fields.more());
        }
        for crd in &self.crds {
            let place = crd.object.origin();
            if crd.object.version() != "v1" {
                let version = crd.object.api_version();
                remarks.push_with(|| {
                    format!("{place}: {version} is not served since Kubernetes 1.22: rewrite the CRD for apiextensions.k8s.io/v1")
                });
            }
        }
        let merged = GeneratedServices::of(self);
        for manifest in self.others.iter().filter(|manifest| merged.has(manifest)) {
            remarks.push_with(|| {
                let Manifest { origin, name, .. } = manifest;
                format!(
                    "{origin}: the Service {name} is generated: its ports and its selector replace \
                     those written here"
                )
            });
        }
        if let Some(problem) = &self.metadata.dependencies_problem {
            remarks.push_with(|| format!("dependencies are not read: {problem}"));
        }
        remarks.lines()
    }

    /// What OLM's packaging rules ask for and its renderer does not.
    fn remark_metadata(&self, remarks: &mut Few<String>) {
        for origin in &self.other_csvs {
            remarks.push_with(|| {
                let last = &self.csv_origin;
                format!("{origin}: a bundle has one ClusterServiceVersion: this one is left out, that of {last} counts")
            });
        }
        remarks.skip(self.other_csvs.more());
        if self.metadata.channels().next().is_none() {
            let (file, name) = (metadata::ANNOTATIONS_FILE, metadata::CHANNELS);
            remarks.push_with(|| format!("{file}: {name} names no channel: a catalog takes the bundle into none"));
        }
        if let Err(problem) = self.managed_name() {
            let place = &self.csv_origin;
            remarks.push_with(|| {
                format!(
                    "{place}: {problem}: a ClusterExtension without a namespace is refused; elsewhere a template that cannot be read \
                     is left out"
                )
            });
        }
        if let Some(text) = self.unreadable_kubernetes() {
            let place = self.origin_of("spec.minKubeVersion");
            remarks
                .push_with(|| format!("{place}: {text:?} is no version such as 1.25.0: no cluster is too old for it"));
        }
    }
}
