//! A Helm chart: rendered once, changed by its values.

use anyhow::{Context, Result, ensure};
use kube::api::DynamicObject;
use rukpak_tests::ImageBuilder;
use rukpak_tests::plane::install::SYSTEM_NAMESPACE;
use rukpak_tests::tools::PATIENCE;
use rukpak_tests::verbs::{self, Expected, Target};
use serde_json::json;

use super::Demo;
use crate::objects::Objects;
use crate::show::Show;

/// Name of the BundleDeployment.
const NAME: &str = "pump-chart";
/// The chart: a setting, and a password that the template makes up.
const FILES: [(&str, &str); 4] = [
    ("Chart.yaml", "{apiVersion: v2, name: pump, version: 1.0.0}\n"),
    ("values.yaml", "size: 1\n"),
    (
        "templates/settings.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}-settings\ndata:\n  size: {{ .Values.size | quote }}\n",
    ),
    (
        "templates/password.yaml",
        "apiVersion: v1\nkind: Secret\nmetadata:\n  name: {{ .Release.Name }}-password\nstringData:\n  password: {{ randAlphaNum 24 }}\n",
    ),
];

impl Demo<'_> {
    /// Installs the chart, changes a value and deletes it.
    pub(super) async fn chart(&self, show: &mut Show) -> Result<()> {
        show.step("A Helm chart is a bundle, too");
        let image = ImageBuilder::of_files(FILES.map(|(path, text)| (path.to_owned(), text.to_owned())).to_vec());
        let pushed = self.setup.registry.push(&format!("example/{NAME}"), "1.0.0", &image).await?;
        self.create(show, &deployment_yaml(&pushed.reference)).await?;
        let deployment = self.await_size("2").await?;
        show.conditions(&deployment, &["Unpacked", "Installed", "Healthy", "Ready"]);
        let look =
            format!("kubectl get configmap {NAME}-settings -n {SYSTEM_NAMESPACE} -o jsonpath='{{.data}}{{\"\\n\"}}'");
        self.typed(show, &look).await?;

        // What the template made up is there until chart or values change.
        let secret = Target::namespaced("v1", "Secret", SYSTEM_NAMESPACE, &format!("{NAME}-password"));
        let before = self.object(&secret).await?;
        verbs::delete(&self.setup.admin, &secret).await?;
        let what = "the Secret again";
        let again = verbs::await_object(&self.setup.admin, &secret, what, PATIENCE, |object| {
            object.is_some_and(|object| super::uid(object) != super::uid(&before))
        });
        let again = again.await?.context("a Secret that does not exist")?;
        ensure!(again.data["data"] == before.data["data"], "another password was made up");
        show.remark("its Secret was deleted and came back with the same password, which a template had made up");

        let patch = json!({"spec": {"config": {"values": "size: 3"}}});
        self.typed(show, &format!("kubectl patch bundledeployment {NAME} --type=merge -p '{patch}'")).await?;
        let deployment = self.await_size("3").await?;
        self.typed(show, &look).await?;
        let objects = Objects::of(&self.setup.admin, &deployment).await?;
        self.delete(show, &Target::bundle_deployment(NAME)).await?;
        self.gone(show, &objects, NAME).await?;
        show.done(format!("rendered by Helm, {} objects, values changed, deleted", objects.len()));
        Ok(())
    }

    /// Waits until the values with this size are installed.
    async fn await_size(&self, size: &str) -> Result<DynamicObject> {
        let settings = Target::namespaced("v1", "ConfigMap", SYSTEM_NAMESPACE, &format!("{NAME}-settings"));
        verbs::await_object(&self.setup.admin, &settings, &format!("size {size}"), PATIENCE, |object| {
            object.is_some_and(|object| object.data["data"]["size"] == size)
        })
        .await?;
        let ready = Expected { kind: "Ready", status: "True", reason: None, message: "" };
        verbs::await_condition(&self.setup.admin, &Target::bundle_deployment(NAME), ready, PATIENCE).await
    }
}

fn deployment_yaml(image: &str) -> String {
    format!(
        "apiVersion: core.rukpak.io/v1alpha1
kind: BundleDeployment
metadata:
  name: {NAME}
spec:
  provisionerClassName: core-rukpak-io-helm
  config:
    values: |
      size: 2
  template:
    spec:
      provisionerClassName: core-rukpak-io-helm
      source:
        type: image
        image:
          ref: {image}
"
    )
}
