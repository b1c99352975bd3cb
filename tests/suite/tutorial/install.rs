//! docs/install.md, followed on a control plane that has nothing yet; and every overlay, applied beside what it installs.

use kube::Client;
use rukpak_tests::kubectl::Terminal;
use rukpak_tests::kubelet::Kubelet;
use rukpak_tests::plane::install::SYSTEM_NAMESPACE;
use rukpak_tests::{Plane, openshift, tools};

use super::page::{Block, Page};

/// Blocks with these words are not followed here.
const ELSEWHERE: [&str; 3] = [
    "make image IMAGE_NAME", // the suite `image`; there is no registry.example.com to copy it to
    "helm install",          // the suite `helm`; what it would install is there
    "port-forward",          // leads to a Pod that runs: `make node-test`
];
/// The block that comes last.
const REMOVAL: &str = "kubectl delete";
/// What the page takes for granted: folders, files, a namespace, and cert-manager, as far as it is looked at.
const GIVEN: &str = "cp -r \"$workspace/manifests\" \"$workspace/Makefile\" .
mkdir FOLDER
echo '{schema: olm.package, name: pumps, defaultChannel: stable}' >FOLDER/catalog.yaml
echo key >id_ed25519
echo git.example.com >known_hosts
kubectl create namespace monitoring
# An API server on loopback does not say where it is.
kubectl get endpoints kubernetes -n default || kubectl apply -f - <<EOF
apiVersion: v1
kind: Endpoints
metadata: {name: kubernetes, namespace: default}
subsets: [{addresses: [{ip: 192.0.2.10}], ports: [{name: https, port: 6443}]}]
EOF
for kind in Issuer Certificate ClusterIssuer; do
  scope=Namespaced
  if [[ $kind == Cluster* ]]; then scope=Cluster; fi
  kubectl apply -f - <<EOF
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ${kind,,}s.cert-manager.io}
spec:
  group: cert-manager.io
  scope: $scope
  names: {kind: $kind, plural: ${kind,,}s}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
EOF
done
kubectl wait --for=condition=Established crd --all";

async fn enter(terminal: &Terminal, text: &str) -> Vec<String> {
    let printed = terminal.enter(text).await.unwrap_or_else(|error| panic!("{error:#}"));
    printed.of_success().unwrap_or_else(|error| panic!("{text}\n{error:#}"))
}

/// Applies every overlay as it is: beside what is there, whoever applied it.
async fn apply_overlays(terminal: &Terminal, how: &str) {
    let overlays = tools::listing(&tools::workspace_folder().join("manifests/overlays")).expect("the folder is there");
    assert!(overlays.len() >= 6, "{overlays:?}");
    for overlay in overlays {
        let name = overlay.file_name().into_string().expect("a name of ASCII");
        let build = format!("kubectl kustomize manifests/overlays/{name}");
        let addresses = "sed 's|SET-ME-API-SERVER-CIDR|192.0.2.10/32|'";
        let lines = enter(terminal, &format!("{build} | {addresses} | kubectl apply {how} -f -")).await;
        assert!(lines.len() >= 3, "{name}: {lines:?}");
    }
}

async fn follow(terminal: &Terminal, block: &Block) {
    // An ellipsis stands for what everybody has another one of.
    let text = block.text.replace("sha256:...", &format!("sha256:{}", "0".repeat(64)));
    let printed = terminal.enter(&text).await.unwrap_or_else(|error| panic!("{error:#}"));
    assert!(printed.succeeded, "docs/install.md, line {}:\n{}\n{}", block.line, block.text, printed.lines.join("\n"));
}

async fn namespaces(client: &Client) -> Vec<String> {
    let all = rukpak_tests::verbs::list(client, "v1", "Namespace", "").await.expect("namespaces can be listed");
    all.into_iter().filter_map(|namespace| namespace.metadata.name).collect()
}

#[tokio::test]
async fn what_the_page_has_people_type_installs_and_removes() {
    let plane = Plane::start().await.unwrap_or_else(|error| panic!("{error:#}"));
    let client = plane.admin().await.unwrap();
    let folder = tools::temp_folder("install").unwrap();
    let terminal = Terminal::new(plane.kubeconfig_path()).unwrap().in_folder(folder.path());
    let workspace = tools::workspace_folder().display();
    enter(&terminal, &format!("workspace={workspace}\n{GIVEN}")).await;
    for definitions in openshift::definitions() {
        enter(&terminal, &format!("kubectl apply -f {}", definitions.display())).await;
    }
    let _kubelet = Kubelet::play(client.clone(), SYSTEM_NAMESPACE);

    let page = Page::read("docs/install.md");
    let (removal, others): (Vec<_>, Vec<_>) = page.blocks().iter().partition(|block| block.text.contains(REMOVAL));
    let here = |block: &&&Block| !ELSEWHERE.iter().any(|words| block.text.contains(words));
    let blocks: Vec<_> = others.iter().filter(here).collect();
    assert!(blocks.len() >= 5 && removal.len() == 1, "{:?}", page.blocks());
    for block in blocks {
        follow(&terminal, block).await;
    }
    assert!(namespaces(&client).await.contains(&SYSTEM_NAMESPACE.to_owned()));
    // What kubectl applied by itself is the server's to apply now, and nobody is in the way.
    apply_overlays(&terminal, "--server-side").await;

    // An API without a server stops the deletion of namespaces. It goes with install-olmv0.yaml, which the page does not remove.
    enter(&terminal, "kubectl delete apiservice v1.packages.operators.coreos.com").await;
    follow(&terminal, removal[0]).await;
    assert!(!namespaces(&client).await.contains(&SYSTEM_NAMESPACE.to_owned()), "nothing is left of it");
    apply_overlays(&terminal, "").await;
    plane.end();
}
