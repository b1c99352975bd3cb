//! What is changed in the Deployments, mostly by the user.

use k8s_openapi::api::core::v1::{Affinity, Container, EnvVar, PodSpec, PodTemplateSpec};

use crate::DeploymentConfig;

/// Changes a pod template: all containers, not the init containers.
pub(super) fn apply(config: &DeploymentConfig, template: &mut PodTemplateSpec) {
    let pod = template.spec.get_or_insert_default();
    pod.containers.iter_mut().for_each(|container| apply_to_container(config, container));
    apply_to_pod(config, pod);
    if !config.annotations.is_empty() {
        let annotations = template.metadata.get_or_insert_default().annotations.get_or_insert_default();
        for (name, text) in &config.annotations {
            annotations.entry(name.clone()).or_insert_with(|| text.clone());
        }
    }
}

/// Sets a variable in all containers, not the init containers.
pub(super) fn set_variable(template: &mut PodTemplateSpec, name: &str, value: &str) {
    let variable = EnvVar { name: name.to_owned(), value: Some(value.to_owned()), ..EnvVar::default() };
    for container in &mut template.spec.get_or_insert_default().containers {
        replace_or_add(&mut container.env, std::slice::from_ref(&variable), |variable| &variable.name);
    }
}

fn apply_to_container(config: &DeploymentConfig, container: &mut Container) {
    replace_or_add(&mut container.env, &config.env, |variable| &variable.name);
    add_new(&mut container.env_from, &config.env_from);
    replace_or_add(&mut container.volume_mounts, &config.volume_mounts, |mount| &mount.name);
    if let Some(resources) = &config.resources {
        container.resources = Some(resources.clone());
    }
}

fn apply_to_pod(config: &DeploymentConfig, pod: &mut PodSpec) {
    replace_or_add(&mut pod.volumes, &config.volumes, |volume| &volume.name);
    add_new(&mut pod.tolerations, &config.tolerations);
    add_new(&mut pod.image_pull_secrets, &config.image_pull_secrets);
    if let Some(selector) = &config.node_selector {
        pod.node_selector = Some(selector.clone());
    }
    if let Some(wanted) = &config.affinity {
        pod.affinity = affinity(wanted, pod.affinity.take());
    }
}

/// An empty affinity erases all, an empty part erases that part, another part replaces it.
fn affinity(wanted: &Affinity, present: Option<Affinity>) -> Option<Affinity> {
    if *wanted == Affinity::default() {
        return None;
    }
    let mut affinity = present.unwrap_or_default();
    replace_part(&mut affinity.node_affinity, wanted.node_affinity.as_ref());
    replace_part(&mut affinity.pod_affinity, wanted.pod_affinity.as_ref());
    replace_part(&mut affinity.pod_anti_affinity, wanted.pod_anti_affinity.as_ref());
    Some(affinity).filter(|affinity| *affinity != Affinity::default())
}

fn replace_part<T: Clone + Default + PartialEq>(part: &mut Option<T>, wanted: Option<&T>) {
    if let Some(wanted) = wanted {
        *part = Some(wanted.clone()).filter(|wanted| *wanted != T::default());
    }
}

fn replace_or_add<T: Clone>(present: &mut Option<Vec<T>>, wanted: &[T], name: impl Fn(&T) -> &String) {
    for item in wanted {
        let list = present.get_or_insert_default();
        match list.iter_mut().find(|known| name(known) == name(item)) {
            Some(known) => *known = item.clone(),
            None => list.push(item.clone()),
        }
    }
}

fn add_new<T: Clone + PartialEq>(present: &mut Option<Vec<T>>, wanted: &[T]) {
    for item in wanted {
        let list = present.get_or_insert_default();
        if !list.contains(item) {
            list.push(item.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{NodeAffinity, NodeSelector, PodAffinity, WeightedPodAffinityTerm};

    use super::*;

    fn present() -> Affinity {
        let required = Some(NodeSelector::default());
        let preferred = Some(vec![WeightedPodAffinityTerm::default()]);
        Affinity {
            node_affinity: Some(NodeAffinity {
                required_during_scheduling_ignored_during_execution: required,
                ..NodeAffinity::default()
            }),
            pod_affinity: Some(PodAffinity {
                preferred_during_scheduling_ignored_during_execution: preferred,
                ..PodAffinity::default()
            }),
            pod_anti_affinity: None,
        }
    }

    #[test]
    fn an_empty_affinity_erases_all_and_an_empty_part_that_part() {
        assert_eq!(affinity(&Affinity::default(), Some(present())), None);
        let empty_part = Affinity { node_affinity: Some(NodeAffinity::default()), ..Affinity::default() };
        let rest = affinity(&empty_part, Some(present())).unwrap();
        assert!(rest.node_affinity.is_none() && rest.pod_affinity.is_some());
        assert_eq!(affinity(&empty_part, None), None);
        let wanted = Affinity { pod_affinity: None, ..present() };
        assert_eq!(affinity(&wanted, None), Some(wanted.clone()));
    }
}
