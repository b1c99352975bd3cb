//! What each of those who are not trusted must not be able to do has a test that tries it: the table of SECURITY.md is this one.

use std::fs;

use rukpak_tests::tools::workspace_folder;

/// Who, by the beginning of their row.
struct Wall {
    who: &'static str,
    /// What they must not be able to do, as the table says it, and where that is tried: a file and the name of its test.
    must_not: &'static [(&'static str, &'static [(&'static str, &'static str)])],
}

const SUBSCRIBER: (&str, &str) =
    ("tests/suite/olmv0/facade/rights.rs", "a_tenant_decides_neither_the_account_nor_the_catalog_nor_approves");
const BENCH: (&str, &str) =
    ("tests/suite/tenants/bench.rs", "whatever_a_tenant_tries_under_an_install_policy_is_refused_or_harmless");
const OTHERS_GO_ON: (&str, &str) =
    ("tests/suite/children.rs", "a_bundle_that_takes_too_much_memory_to_check_fails_alone");
const TURNS: (&str, &str) =
    ("tests/suite/children.rs", "a_deployment_does_not_wait_for_bundles_that_name_a_dripping_server_in_two_ways");
const UPLOADS: (&str, &str) =
    ("tests/suite/tenants/controller.rs", "an_upload_takes_the_right_on_what_it_is_for_and_on_whose_rights_install_it");
const ARCHIVES: (&str, &str) =
    ("tests/suite/hostile/archives.rs", "archives_are_refused_by_rule_or_limit_and_harm_nobody");
const ZSTD: (&str, &str) =
    ("tests/suite/children/zstd.rs", "the_controller_decompresses_what_strangers_wrote_in_children");

const WALLS: [Wall; 10] = [
    Wall {
        who: "who may create a **BundleDeployment**",
        must_not: &[
            ("stop others", &[OTHERS_GO_ON, TURNS]),
            (
                "make the controller send credentials to hosts that they are not for",
                &[
                    ("tests/suite/hostile/logins.rs", "a_secret_that_names_hosts_is_sent_to_these_only"),
                    (
                        "tests/suite/children.rs",
                        "a_login_that_names_no_hosts_is_sent_nowhere_and_its_secret_is_told_of",
                    ),
                    (
                        "webhook/tests/manifests.rs",
                        "every_controller_sends_logins_only_to_hosts_that_their_secrets_name",
                    ),
                ],
            ),
        ],
    },
    Wall { who: "who may create a **ClusterObjectSet**", must_not: &[("stop others", &[OTHERS_GO_ON, TURNS])] },
    Wall {
        who: "who may create a **Subscription**",
        must_not: &[
            (
                "name another account or a catalog of another namespace",
                &[
                    (
                        "tests/suite/olmv0/facade/rights.rs",
                        "a_subscription_of_a_tenant_does_what_the_account_may_and_no_more",
                    ),
                    SUBSCRIBER,
                ],
            ),
            (
                "approve their InstallPlans",
                &[
                    SUBSCRIBER,
                    (
                        "tests/suite/olmv0/facade/rights.rs",
                        "who_is_admin_of_a_namespace_and_no_more_neither_subscribes_nor_lets_themselves",
                    ),
                ],
            ),
        ],
    },
    Wall {
        who: "**tenant**",
        must_not: &[(
            "write anything with the rights of others, the controller's among them",
            &[
                BENCH,
                UPLOADS,
                (
                    "tests/suite/tenants/controller.rs",
                    "nothing_is_installed_without_an_account_where_the_webhook_does_not_ask",
                ),
                (
                    "tests/suite/rights/accounts.rs",
                    "nobody_installs_with_the_rights_of_an_account_that_they_may_not_impersonate",
                ),
            ],
        )],
    },
    Wall {
        who: "who may write **Bundles**",
        must_not: &[
            (
                "make their content another deployment's",
                &[
                    BENCH,
                    (
                        "tests/suite/admission/reviews.rs",
                        "a_bundle_that_says_it_is_a_deployments_is_refused_from_anybody_else",
                    ),
                    (
                        "tests/suite/trust/remembered.rs",
                        "the_signature_of_an_image_does_not_count_for_content_that_a_status_names_beside_it",
                    ),
                ],
            ),
            (
                "read Secrets",
                &[
                    ("tests/suite/hostile/logins.rs", "a_secret_of_something_else_is_sent_nowhere"),
                    ("tests/suite/olmv1/object_sets.rs", "a_bundle_reads_no_secret_that_is_meant_for_another"),
                ],
            ),
            (
                "reach the node, the API server or metadata services",
                &[("tests/suite/hostile/egress.rs", "sources_at_refused_addresses_are_not_connected_to")],
            ),
            ("stop others", &[OTHERS_GO_ON, TURNS]),
        ],
    },
    Wall {
        who: "**uploader**",
        must_not: &[
            ("fill a Bundle of others", &[UPLOADS]),
            (
                "change what was received",
                &[("tests/suite/content/uploads.rs", "an_upload_is_unpacked_and_is_what_it_is")],
            ),
            ("fill the disk", &[("provisioners/unpack/src/depot.rs", "all_archives_together_have_a_quota")]),
            (
                "hold up others",
                &[("tests/suite/content/load.rs", "slow_uploads_stop_neither_unpacking_nor_rendering_nor_readiness")],
            ),
        ],
    },
    Wall {
        who: "**reader**",
        must_not: &[
            ("read anything else", &[("tests/suite/content/access.rs", "each_role_is_for_its_own_path")]),
            ("hold up others", &[("tests/suite/content/load.rs", "silent_connections_keep_nobody_out")]),
        ],
    },
    Wall {
        who: "**author of a bundle** that is installed",
        must_not: &[
            (
                "install anything but what `rukpakctl render` shows",
                &[("tests/suite/hostile/archives.rs", "a_manifest_hidden_in_a_name_is_not_installed")],
            ),
            (
                "run code in the controller",
                &[
                    ("tests/suite/children/zstd.rs", "each_program_decompresses_in_a_child_that_keeps_to_its_bounds"),
                    (
                        "tests/suite/hostile/git.rs",
                        "hooks_attributes_filters_and_configuration_of_a_repository_are_files_like_others",
                    ),
                ],
            ),
            ("stop others", &[OTHERS_GO_ON, TURNS]),
        ],
    },
    Wall {
        who: "**author of a bundle** that is only fetched",
        must_not: &[("do any harm: memory, disk, time, names, logs", &[ARCHIVES, ZSTD, OTHERS_GO_ON])],
    },
    Wall {
        who: "**author of a catalog**",
        must_not: &[(
            "the rest, as an author of a bundle",
            &[
                ("tests/suite/hostile/catalogs.rs", "file_based_catalogs_without_end_are_cut_off_at_their_bounds"),
                ("tests/suite/hostile/catalogs.rs", "grpc_catalogs_are_cut_off_at_their_bounds"),
            ],
        )],
    },
];

fn read(path: &str) -> String {
    fs::read_to_string(workspace_folder().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn what_somebody_must_not_be_able_to_do_is_tried_by_a_test() {
    let page = read("SECURITY.md");
    let table = page.split("| who | may | must not be able to |").nth(1).expect("the table is there");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let cells = rows.map(|row| row.trim_matches('|').split(" | ").map(str::trim).collect::<Vec<_>>());
    let distrusted: Vec<_> = cells.filter(|cells| cells.last() != Some(&"-")).collect();
    assert_eq!(distrusted.len(), WALLS.len(), "a row of the table is tried by nothing here: {distrusted:#?}");

    for (cells, Wall { who, must_not }) in distrusted.iter().zip(&WALLS) {
        assert!(cells[0].starts_with(who), "{} is not {who}", cells[0]);
        let said: Vec<&str> = must_not.iter().map(|(what, _)| *what).collect();
        assert_eq!(cells.last(), Some(&said.join("; ").as_str()), "{who}");
        for (what, tests) in *must_not {
            assert!(!tests.is_empty(), "{who} {what}: no test");
            for (file, name) in *tests {
                assert!(read(file).contains(&format!("fn {name}()")), "{who} {what}: no test {name} in {file}");
            }
        }
    }
}
