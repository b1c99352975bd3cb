//! `overlays/network-policies`: who may reach the Pods, and whom they may reach.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::build::{Objects, build, folder, get, manager};

const PLACEHOLDER: &str = "SET-ME-API-SERVER-CIDR";

fn policies() -> Objects {
    build(&folder().join("overlays/network-policies"))
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// The policy for a Deployment of the usual installation.
fn of<'a>(policies: &'a Objects, name: &str, deployment: &Value) -> &'a Value {
    let policy = get(policies, "NetworkPolicy", name);
    assert_eq!(policy["metadata"]["namespace"], deployment["metadata"]["namespace"]);
    let labels = &deployment["spec"]["template"]["metadata"]["labels"];
    assert_eq!(policy["spec"]["podSelector"], json!({"matchLabels": labels}));
    policy
}

/// Who may reach a port: all of `from`.
fn callers(policy: &Value, port: &Value) -> Vec<Value> {
    let opens = |rule: &&Value| list(&rule["ports"]).any(|open| open["port"] == *port && open["protocol"] == "TCP");
    list(&policy["spec"]["ingress"]).filter(opens).flat_map(|rule| list(&rule["from"])).cloned().collect()
}

#[test]
fn every_pod_is_closed_but_for_what_it_serves() {
    let (policies, objects) = (policies(), build(&folder().join("overlays/olm")));
    let olmv0 = build(&folder().join("overlays/olmv0"));
    let deployments: Vec<_> = objects.iter().filter(|((kind, _), _)| kind == "Deployment").collect();
    assert_eq!((deployments.len(), policies.len()), (3, 3));
    for ((_, name), deployment) in deployments {
        let policy = of(&policies, name, deployment);
        assert_eq!(policy["spec"]["policyTypes"], json!(["Ingress", "Egress"]));
        for rule in list(&policy["spec"]["ingress"]) {
            assert!(list(&rule["from"]).count() > 0 && list(&rule["ports"]).count() > 0, "{name}: open to all: {rule}");
        }
        for rule in list(&policy["spec"]["egress"]) {
            assert!(list(&rule["to"]).count() > 0, "{name}: may reach all: {rule}");
        }
        // No rule is left over, none is missing; kubelets need none.
        let mut served: Vec<&Value> = Vec::new();
        for overlay in [deployment, get(&olmv0, "Deployment", name)] {
            let ports = list(&manager(overlay)["ports"]).filter(|port| port["name"] != "health");
            let others: Vec<_> = ports.filter(|port| !served.contains(port)).collect();
            served.extend(others);
        }
        for rule in list(&policy["spec"]["ingress"]) {
            let [port] = list(&rule["ports"]).collect::<Vec<_>>().try_into().expect("because it is one port a rule");
            let at = served.iter().position(|open| open["containerPort"] == port["port"]);
            served.remove(at.unwrap_or_else(|| panic!("{name} serves nothing at {port}")));
        }
        assert_eq!(served, Vec::<&Value>::new(), "{name}: nobody can reach these");
    }
}

#[test]
fn the_webhook_answers_the_api_server_alone_and_asks_nobody_else() {
    let policies = policies();
    let policy = get(&policies, "NetworkPolicy", "rukpak-webhooks");
    let api_server = json!({"ipBlock": {"cidr": PLACEHOLDER}});
    assert_eq!(callers(policy, &json!(9443)), std::slice::from_ref(&api_server));
    assert_eq!(policy["spec"]["egress"], json!([{"to": [api_server]}]));
}

#[test]
fn no_pod_may_reach_the_node_or_the_cluster_for_content() {
    fn holds(cidr: &str, address: IpAddr) -> bool {
        let (network, bits) = cidr.split_once('/').expect("because it is a block");
        let bits: u32 = bits.parse().unwrap();
        let number = |address: IpAddr| match address {
            IpAddr::V4(address) => (u128::from(u32::from(address)), 32),
            IpAddr::V6(address) => (u128::from(address), 128),
        };
        let ((network, width), (address, same)) = (number(network.parse().unwrap()), number(address));
        width == same && (bits == 0 || network >> (width - bits) == address >> (width - bits))
    }
    let policies = policies();
    for name in ["core", "platform-operators-controller-manager"] {
        let egress = &get(&policies, "NetworkPolicy", name)["spec"]["egress"];
        let blocks: Vec<_> =
            list(egress).flat_map(|rule| list(&rule["to"])).filter_map(|to| to.get("ipBlock")).collect();
        let reached = |address: &str| {
            let address: IpAddr = address.parse().unwrap();
            blocks.iter().any(|block| {
                let cidr = block["cidr"].as_str().unwrap();
                let except = |except: &Value| holds(except.as_str().unwrap(), address);
                cidr != PLACEHOLDER && holds(cidr, address) && !list(&block["except"]).any(except)
            })
        };
        for closed in ["127.0.0.1", "169.254.169.254", "10.96.0.1", "172.16.3.4", "192.168.1.1", "100.100.100.200"] {
            assert!(!reached(closed), "{name} may reach {closed}");
        }
        for closed in ["::1", "fe80::1", "fd00:ec2::254", "64:ff9b::a9fe:a9fe"] {
            assert!(!reached(closed), "{name} may reach {closed}");
        }
        for open in ["203.0.113.7", "8.8.8.8", "2001:db8::1"] {
            assert!(reached(open), "{name} cannot reach {open}");
        }
    }
}

#[test]
fn the_api_server_refuses_the_placeholder_so_nobody_forgets_it() {
    assert!(PLACEHOLDER.parse::<IpAddr>().is_err() && !PLACEHOLDER.contains('/'));
    let text = std::fs::read_to_string(folder().join("../docs/install.md")).unwrap();
    assert!(text.contains(PLACEHOLDER), "the document says what to put there");
}
