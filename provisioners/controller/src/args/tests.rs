use clap::CommandFactory;
use rukpak_content::Limit;

use super::*;

fn options(args: &[&str]) -> Options {
    Options::try_parse_from([&["rukpak-controller"], args].concat()).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn knows_every_limit_that_a_refusal_names() {
    Options::command().debug_assert();
    let names: Vec<String> = LIMITS.iter().map(|limit| format!("--limit={}", limit.name)).collect();
    for limit in [
        Limit::DownloadBytes,
        Limit::TreeBytes,
        Limit::Layers,
        Limit::Ratio,
        Limit::Entries,
        Limit::PathBytes,
        Limit::Depth,
        Limit::ManifestBytes,
        Limit::Objects,
        Limit::YamlNodes,
        Limit::TextBytes,
        Limit::GitBytes,
        Limit::GitTime,
        Limit::PullTime,
        Limit::ChildBytes,
        Limit::CheckTime,
    ] {
        assert!(names.iter().any(|name| name == limit.flag()), "{} is missing", limit.flag());
    }
}

#[test]
fn lists_every_limit_in_the_help() {
    let help = Options::command().render_long_help().to_string();
    for limit in &LIMITS {
        let words = format!("{}={}: ", limit.name, limit.default_value());
        assert!(help.contains(&words), "{words:?} is not in {help}");
    }
}

#[test]
fn each_name_of_a_limit_moves_that_limit() {
    assert_eq!(options(&[]).limits(), Limits::default());
    let limits = options(&[
        "--limit=download-bytes=99",
        "--limit=download-bytes=1,tree-bytes=2",
        "--limit=ratio=3",
        "--limit=entries=4",
        "--limit=path-bytes=5",
        "--limit=depth=6",
        "--limit=manifest-bytes=7",
        "--limit=objects=8",
        "--limit=yaml-nodes=9",
        "--limit=text-bytes=13",
        "--limit=git-bytes=10",
        "--limit=git-seconds=11",
        "--limit=pull-seconds=12",
        "--limit=layers=13",
        "--limit=child-bytes=14",
        "--limit=check-seconds=15",
    ])
    .limits();
    let expected = Limits {
        download_bytes: 1,
        tree_bytes: 2,
        layers: 13,
        ratio: 3,
        entries: 4,
        path_bytes: 5,
        depth: 6,
        manifest_bytes: 7,
        objects: 8,
        yaml_nodes: 9,
        text_bytes: 13,
        git_bytes: 10,
        git_time: Duration::from_secs(11),
        pull_time: Duration::from_secs(12),
        child_bytes: 14,
        check_time: Duration::from_secs(15),
    };
    assert_eq!(limits, expected);
}

#[test]
fn upstreams_command_line_is_understood() {
    let options = options(&[
        "--http-bind-address=127.0.0.1:8080",
        "--http-external-address=https://core.rukpak-system.svc",
        "--bundle-ca-file=/etc/pki/tls/ca.crt",
        "--health-probe-bind-address=:8081",
        "--system-namespace=rukpak",
        "--unpack-image=quay.io/operator-framework/rukpak:main",
        "--base-upload-manager-url=https://core.rukpak-system.svc",
        "--leader-elect",
        "--provisioner-storage-dir=/var/cache/bundles",
        "--upload-storage-dir=/var/cache/uploads",
        "--upload-storage-sync-interval=1m30s",
        "--feature-gates=BundleDeploymentHealth=true",
        "--zap-log-level=5",
        "--zap-devel",
        "--zap-encoder=json",
        "--zap-stacktrace-level=error",
        "--zap-time-encoding=rfc3339",
        "--kubeconfig=/etc/kubeconfig",
    ]);
    assert_eq!(options.shared().kubeconfig.as_deref(), Some(std::path::Path::new("/etc/kubeconfig")));
    assert_eq!(options.http_bind_address, Address::Host("127.0.0.1".into(), 8080));
    assert_eq!(options.system_namespace(), "rukpak");
    assert_eq!(options.upload_storage_sync_interval, Duration::from_secs(90));
    assert_eq!(options.shared().logging.filter, "debug");
    assert!(options.feature_gates.bundle_deployment_health);
    assert_eq!(options.leader_election().unwrap().lease_duration, Duration::from_secs(15));
}

#[test]
fn wrong_values_are_refused_with_what_to_write() {
    for (arg, word) in [
        ("--feature-gates=Other=true", "BundleDeploymentHealth"),
        ("--http-bind-address=8080", ":port"),
        ("--concurrency=0", "from 1"),
        ("--limit=depth", "NAME=VALUE"),
        ("--limit=deepness=1", "depth"),
        ("--limit=depth=1KiB", "whole number"),
        ("--limit=uploads=0", "from 1"),
        ("--require=digests", "secret-hosts"),
        ("--upload-storage-sync-interval=-1m", "1m30s"),
        ("--upload-storage-sync-interval=5", "1m30s"),
    ] {
        let error = Options::try_parse_from(["rukpak-controller", arg]).unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    }
}

#[test]
fn each_name_of_require_closes_its_own_door() {
    let policy = |flags: &[&str]| options(flags).sources();
    assert_eq!(policy(&[]), SourcePolicy::default());
    let open = SourcePolicy::default;
    for (flag, expected) in [
        ("--require=secret-hosts", SourcePolicy { require_secret_hosts: true, ..open() }),
        ("--require=tls-verification", SourcePolicy { forbid_insecure_skip_verify: true, ..open() }),
        ("--require=content-policy", SourcePolicy { require_content_policy: true, ..open() }),
        ("--require=ssh-known-hosts", SourcePolicy { strict_host_keys: true, ..open() }),
        ("--require=confinement", SourcePolicy { require_confinement: true, ..open() }),
    ] {
        assert_eq!(policy(&[flag]), expected, "{flag}");
        assert_eq!(policy(&[flag, "--require=none"]), open(), "{flag} taken back");
        assert!(!options(&[flag]).require_service_account(), "{flag}");
    }
    assert!(options(&["--require=secret-hosts,service-account"]).require_service_account());
}

#[test]
fn leader_election_can_be_written_off() {
    assert_eq!(options(&["--leader-elect=false"]).leader_election(), None);
    assert_eq!(options(&[]).leader_election(), None);
}

#[test]
fn the_deployment_speaks_our_flags_and_opens_our_ports() {
    let text = include_str!("../../../../manifests/base/controller/deployment.yaml");
    let args: Vec<&str> = text.lines().filter_map(|line| line.trim().strip_prefix("- --")).collect();
    let args: Vec<String> = args.into_iter().map(|arg| format!("--{arg}")).collect();
    let options = options(&args.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(options.leader_election().is_some(), "a rollout runs two of them for a moment");
    assert!(options.feature_gates.bundle_deployment_health);
    let shared = options.shared();
    let addresses = [
        ("health", &shared.probe_address),
        ("metrics", &options.http_bind_address),
        ("https", &options.content_bind_address),
    ];
    for (name, address) in addresses {
        let Address::Any(port) = address else { panic!("{name}: {address}: the kubelet comes from outside") };
        let open = format!("- name: {name}\n          containerPort: {port}\n");
        assert!(text.contains(&open), "the Deployment does not open {name} at {port}");
    }
    assert!(
        text.contains("mountPath: /var/cache\n")
            && options.provisioner_storage_dir.starts_with("/var/cache")
            && options.upload_storage_dir.starts_with("/var/cache"),
        "it can write there"
    );
    assert!(text.contains("- name: POD_NAME\n"), "the holder of the Lease is named after the Pod");
}

#[test]
fn each_name_of_a_limit_on_uploads_moves_that_limit() {
    assert_eq!(options(&[]).uploads(), UploadLimits::default());
    let flags = [
        "--limit=uploads=1",
        "--limit=upload-seconds=2",
        "--limit=upload-bytes-per-second=3",
        "--limit=upload-store-bytes=4",
    ];
    let expected = UploadLimits { at_once: 1, time: Duration::from_secs(2), bytes_per_second: 3, store_bytes: 4 };
    assert_eq!(options(&flags).uploads(), expected);
}

#[test]
fn tokens_are_for_the_api_server_unless_audiences_are_named() {
    assert_eq!(options(&[]).content_audiences, [""; 0]);
    let named = options(&["--content-audiences=a,b", "--content-audiences=c"]);
    assert_eq!(named.content_audiences, ["a", "b", "c"]);
}
