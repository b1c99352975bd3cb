//! Which cluster is asked, and what is said where there is none.

use crate::support::{Answer, Folder, command};

/// Runs the program for somebody with this home and `$KUBECONFIG`, who is no Pod.
fn run_in(home: &Folder, kubeconfig: Option<&str>, arguments: &[&str]) -> Answer {
    let mut command = command(arguments);
    command.env("HOME", home.path()).env_remove("KUBECONFIG").env_remove("KUBERNETES_SERVICE_HOST");
    if let Some(kubeconfig) = kubeconfig {
        command.env("KUBECONFIG", kubeconfig);
    }
    Answer::of(command)
}

/// All verbs that speak to a cluster: with these flags they end with 2 and say this.
#[track_caller]
fn assert_said(home: &Folder, kubeconfig: Option<&str>, flags: &[&str], texts: &[&str]) {
    let bundle = home.join("bundle");
    let verbs = [
        &["status"][..],
        &["content", "pump"],
        &["run", "pump", &bundle],
        &["examples", "pump"],
        &["examples", "bd/pump"],
    ];
    for verb in verbs {
        let answer = run_in(home, kubeconfig, &[verb, flags].concat());
        assert_eq!((answer.code, answer.out.as_str()), (2, ""), "{verb:?}: {}", answer.err);
        for text in texts {
            assert!(answer.err.contains(text), "{verb:?}: {text:?} is not in: {}", answer.err);
        }
    }
}

/// Two contexts of clusters that nobody runs.
const KUBECONFIG: &str = r#"{"apiVersion": "v1", "kind": "Config",
    "clusters": [{"name": "one", "cluster": {"server": "https://127.0.0.1:1"}}, {"name": "two", "cluster": {"server": "https://127.0.0.1:2"}}],
    "contexts": [{"name": "first", "context": {"cluster": "one"}}, {"name": "second", "context": {"cluster": "two"}}]}"#;

fn home(more: &[(&str, &str)]) -> Folder {
    Folder::of(
        &[&[("bundle/manifests/a.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n")], more].concat(),
    )
}

#[test]
fn without_a_kubeconfig_it_is_said_what_was_tried_and_what_to_do() {
    let home = home(&[]);
    let looked = format!("$KUBECONFIG is not set, no such file: {}", home.join(".kube/config"));
    let way_out = "name a kubeconfig by --kubeconfig PATH or in $KUBECONFIG";
    assert_said(&home, None, &[], &[&looked, "this is not a Pod of a cluster", way_out]);
    assert_said(&home, Some(""), &[], &[&looked]);
    assert_said(
        &home,
        Some("/nonexistent/a:/nonexistent/b"),
        &[],
        &["$KUBECONFIG is /nonexistent/a:/nonexistent/b", way_out],
    );
    let missing =
        "the kubeconfig /nonexistent/c cannot be used: there is no such file; name another by --kubeconfig PATH";
    assert_said(&home, None, &["--kubeconfig=/nonexistent/c"], &[missing]);
    assert_said(&home, None, &["--context=first"], &[&looked, "name another by --kubeconfig PATH"]);
}

#[test]
fn flags_choose_file_and_context() {
    let current = |name: &str| KUBECONFIG.replacen('{', &format!("{{\"current-context\": \"{name}\","), 1);
    let home = home(&[(".kube/config", &current("first")), ("other", KUBECONFIG), ("second", &current("second"))]);
    let (other, second) = (home.join("other"), home.join("second"));
    let asked = |server: &str, context: &str, file: &str| {
        format!(
            "the API server {server}/ of context {context:?} of the kubeconfig {file} could not be asked; --kubeconfig and --context choose another cluster: "
        )
    };
    let config = home.join(".kube/config");
    assert_said(&home, None, &[], &[&asked("https://127.0.0.1:1", "first", &config), "Connection refused"]);
    assert_said(&home, None, &["--context=second"], &[&asked("https://127.0.0.1:2", "second", &config)]);
    let flag = format!("--kubeconfig={second}");
    assert_said(&home, None, &[&flag], &[&asked("https://127.0.0.1:2", "second", &second)]);
    assert_said(&home, Some(&other), &[&flag], &[&asked("https://127.0.0.1:2", "second", &second)]);
    assert_said(&home, Some(&other), &[&flag, "--context=first"], &[&asked("https://127.0.0.1:1", "first", &second)]);
    // What is not there is passed over, as kubectl does it.
    let several = format!("/nonexistent/a:{second}");
    assert_said(&home, Some(&several), &[], &[&asked("https://127.0.0.1:2", "second", &several)]);
}

#[test]
fn a_context_that_is_not_there_is_named_with_those_that_are() {
    let home = home(&[(".kube/config", KUBECONFIG), ("broken", "clusters: 5"), ("empty", "")]);
    assert_said(&home, None, &[], &["has no current context; choose one by --context: first, second"]);
    assert_said(
        &home,
        None,
        &["--context=third"],
        &["has no context \"third\"; choose one by --context: first, second"],
    );
    let broken = format!("--kubeconfig={}", home.join("broken"));
    let parse = "expected sequence start; name another by --kubeconfig PATH";
    assert_said(
        &home,
        None,
        &[&broken],
        &[&home.join("broken"), "cannot be used: failed to parse kubeconfig YAML", parse],
    );
    assert!(!run_in(&home, None, &["status", &broken]).err.contains("clusters: 5"), "what is in it is not told");
    let empty = format!("--kubeconfig={}", home.join("empty"));
    assert_said(&home, None, &[&empty], &["has no current context; it has none at all"]);
}

#[test]
fn a_file_of_the_kubeconfig_that_is_not_there_is_told_once() {
    let user = r#""users": [{"name": "u", "user": {"client-certificate": "/nonexistent/c", "client-key": "/nonexistent/k"}}],"#;
    let config = KUBECONFIG.replacen('{', &format!("{{\"current-context\": \"first\", {user}"), 1);
    let config = config.replace(r#""cluster": "one"}"#, r#""cluster": "one", "user": "u"}"#);
    let home = home(&[(".kube/config", &config)]);
    assert_said(&home, None, &[], &["failed to load client certificate", "/nonexistent/c"]);
    let answer = run_in(&home, None, &["status"]);
    assert_eq!(answer.err.matches("No such file").count(), 1, "{}", answer.err);
}
