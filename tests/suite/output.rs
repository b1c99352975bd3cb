//! What `rukpakctl` prints, verb by verb, held to golden files: on a terminal, into a pipe, and as JSON, of a real control plane where
//! the verb asks one.
//!
//! ```text
//! stories    what is typed, in order; the same for each form
//! session    a folder, a kubeconfig and the program; a terminal is one of util-linux's `script`
//! screen     what a terminal shows in the end, with its colours as text
//! normalize  what differs from run to run
//! goldens    output/goldens/VERB.FORM.txt
//! ```
//!
//! `RUKPAK_GOLDEN=write` writes the files. Read each change as a user would.

mod goldens;
mod normalize;
mod screen;
mod session;
mod stories;

use std::collections::BTreeSet;

use self::goldens::{EXCEPTIONS, Goldens};
use self::session::{Cluster, FORMS};

#[tokio::test]
async fn every_verb_prints_what_its_goldens_say() {
    let cluster = Cluster::start().await;
    let mut goldens = Goldens::default();
    for form in FORMS {
        stories::tell(&cluster, form, &mut goldens).await;
    }
    goldens.compare();
}

/// A verb that is new has none yet: add it to the stories, or to the exceptions with the reason.
#[test]
fn every_verb_has_its_goldens() {
    let verbs = session::verbs();
    assert!(verbs.contains("install") && verbs.contains("catalog-list"), "{verbs:?}");
    let expected: BTreeSet<String> = verbs
        .iter()
        .flat_map(|verb| FORMS.map(|form| (verb, form)))
        .filter(|(verb, form)| goldens::is_expected(verb, *form))
        .map(|(verb, form)| goldens::file_name(verb, form))
        .collect();
    assert_eq!(goldens::names(), expected, "left: the files; right: the verbs and forms of the program");
    for (exception, reason) in EXCEPTIONS {
        let verb = exception.split('.').next().unwrap_or_default();
        assert!(verbs.contains(verb), "{exception} is no verb any more: {reason}");
    }
}
