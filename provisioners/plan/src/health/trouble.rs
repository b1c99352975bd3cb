//! Why the Pods of a workload do not run: the workload itself only counts them.

use serde_json::Value;

/// Longest text of a Pod that is told. A status is no log.
const LONGEST: usize = 300;
/// What every container waits for at first.
const ON_THE_WAY: [&str; 2] = ["ContainerCreating", "PodInitializing"];

/// Why the first of these Pods, whole objects, does not run, by name; `None` if nothing is wrong with any of them.
///
/// The Pod with its container and the reason and message of the kubelet: `pod "a-1", container "c": ImagePullBackOff: Back-off
/// pulling image "x"`. An exit code where a container ended, the scheduler's words where no node takes the Pod.
pub fn trouble(pods: &[Value]) -> Option<String> {
    let mut pods: Vec<&Value> = pods.iter().collect();
    pods.sort_by_key(|pod| text(pod, "/metadata/name"));
    pods.into_iter().find_map(|pod| {
        let why = container(pod).or_else(|| unscheduled(pod))?;
        Some(bounded(&format!("pod {:?}{why}", text(pod, "/metadata/name"))))
    })
}

fn container(pod: &Value) -> Option<String> {
    let lists = ["/status/initContainerStatuses", "/status/containerStatuses"];
    let statuses = lists.iter().filter_map(|list| pod.pointer(list)?.as_array()).flatten();
    statuses.into_iter().find_map(|status| {
        let name = text(status, "/name");
        let ended = ["/state/terminated", "/lastState/terminated"].iter().find_map(|at| status.pointer(at));
        let code = ended.and_then(|ended| ended["exitCode"].as_i64()).filter(|code| *code != 0);
        let code = code.map(|code| format!(" (exit code {code})")).unwrap_or_default();
        match (text(status, "/state/waiting/reason"), text(status, "/state/waiting/message")) {
            ("", _) => {
                let reason = text(status, "/state/terminated/reason");
                (!code.is_empty() && !reason.is_empty()).then(|| format!(", container {name:?}: {reason}{code}"))
            }
            (reason, _) if ON_THE_WAY.contains(&reason) => None,
            (reason, "") => Some(format!(", container {name:?}: {reason}{code}")),
            (reason, message) => Some(format!(", container {name:?}: {reason}: {message}{code}")),
        }
    })
}

fn unscheduled(pod: &Value) -> Option<String> {
    let conditions = pod.pointer("/status/conditions")?.as_array()?;
    let scheduled = conditions.iter().find(|condition| condition["type"] == "PodScheduled")?;
    let (reason, message) = (text(scheduled, "/reason"), text(scheduled, "/message"));
    (scheduled["status"] == "False" && !message.is_empty()).then(|| format!(": {reason}: {message}"))
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn bounded(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, status: &Value) -> Value {
        json!({"metadata": {"name": name}, "status": status})
    }

    fn waiting(reason: &str, message: &str) -> Value {
        json!({"containerStatuses": [{"name": "c", "state": {"waiting": {"reason": reason, "message": message}}}]})
    }

    #[test]
    fn the_first_pod_that_does_not_run_is_told_of() {
        let fine = json!({"containerStatuses": [{"name": "c", "state": {"running": {}}}]});
        let pods = [
            pod("d", &waiting("ErrImagePull", "no such image")),
            pod("a", &fine),
            pod("b", &waiting("ContainerCreating", "")),
            pod("c", &waiting("ImagePullBackOff", "Back-off pulling image \"x\"")),
        ];
        let told = "pod \"c\", container \"c\": ImagePullBackOff: Back-off pulling image \"x\"";
        assert_eq!(trouble(&pods).as_deref(), Some(told));
        assert_eq!(trouble(&pods[1..3]), None);
        assert_eq!(trouble(&[json!({}), json!(null)]), None);
    }

    #[test]
    fn exit_codes_and_the_words_of_the_scheduler_are_told() {
        let crashing = json!({"containerStatuses": [{"name": "c", "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"exitCode": 3, "reason": "Error"}}}]});
        let told = |status: &Value| trouble(&[pod("a", status)]);
        assert_eq!(told(&crashing).as_deref(), Some("pod \"a\", container \"c\": CrashLoopBackOff (exit code 3)"));
        let init = json!({"initContainerStatuses": [{"name": "i", "state": {"terminated": {"exitCode": 1, "reason": "Error"}}}]});
        assert_eq!(told(&init).as_deref(), Some("pod \"a\", container \"i\": Error (exit code 1)"));
        let done = json!({"initContainerStatuses": [{"name": "i", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}]});
        assert_eq!(told(&done), None);
        let nowhere = json!({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "message": "0/1 nodes are available"}]});
        assert_eq!(told(&nowhere).as_deref(), Some("pod \"a\": Unschedulable: 0/1 nodes are available"));
    }

    #[test]
    fn a_text_has_an_end() {
        let told = trouble(&[pod("a", &waiting("ErrImagePull", &"ä".repeat(1000)))]).unwrap();
        assert_eq!(told.chars().count(), LONGEST + 3);
    }
}
