//! What some tests need and not every machine, or not every version of Kubernetes, has. A test says so by its name, or that of its
//! module or program.

use clap::ValueEnum;
use rukpak_tests::tools;

use anyhow::{Result, bail};

use crate::ground::Ground;
use crate::programs::Program;

/// What may be missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Need {
    /// Published bundles and catalogs, in `$CORPUS` or in `../shared/corpus`
    Corpus,
    /// Chromium
    Browser,
    /// The published charts of `tests/tools/charts.txt`, which Go fetches
    Charts,
    /// ValidatingAdmissionPolicies, which InstallPolicies are printed as: Kubernetes 1.30
    Policies,
    /// An API server that keeps what a CRD has come to refuse (`CRDValidationRatcheting`): Kubernetes 1.30
    Ratcheting,
    /// An API server that the small one of the planner's tests is like: Kubernetes 1.31
    Likeness,
}

impl Need {
    /// What is in the names of the tests that need it: one of these words.
    fn words(self) -> &'static [&'static str] {
        match self {
            Self::Corpus => &["corpus"],
            Self::Browser => &["browser"],
            Self::Charts => &["published_charts"],
            Self::Policies => &["install_policy", "warning_policy"],
            Self::Ratcheting => &["ratcheting"],
            Self::Likeness => &["small_server"],
        }
    }

    /// Why it is not there, if it is not.
    fn problem(self, ground: &Ground) -> Option<String> {
        let since = |minor: u32| {
            let is_older = ground.minor().is_some_and(|present| present < minor);
            is_older.then(|| format!("Kubernetes is older than 1.{minor}"))
        };
        match self {
            Self::Corpus if tools::corpus().is_some() => None,
            Self::Corpus => Some("no published bundles in $CORPUS or ../shared/corpus".to_owned()),
            Self::Browser => tools::browser().err().map(|error| format!("no Chromium ({error:#})")),
            Self::Charts => tools::charts().err().map(|error| format!("no published charts ({error:#})")),
            Self::Policies | Self::Ratcheting => since(30),
            Self::Likeness => since(31),
        }
    }
}

/// What some of these programs need and this machine lacks, and why.
pub fn absent(programs: &[Program], required: &[Need], ground: &Ground) -> Result<Vec<(Need, String)>> {
    let mut absent = Vec::new();
    for need in Need::value_variants() {
        let is_needed = |program: &Program| need.words().iter().any(|word| program.tests_with(word) > 0);
        if !programs.iter().any(is_needed) {
            continue;
        }
        let Some(problem) = need.problem(ground) else { continue };
        if required.contains(need) {
            bail!("{problem}, and REQUIRE names it: {}", need.words().join(", "));
        }
        absent.push((*need, problem));
    }
    Ok(absent)
}

/// The programs without the tests that need what is absent, and how many tests these are.
pub fn without(programs: Vec<Program>, absent: &[(Need, String)]) -> (Vec<Program>, usize) {
    let (mut left, mut not_run) = (programs, 0);
    for word in absent.iter().flat_map(|(need, _)| need.words()) {
        not_run += left.iter().map(|program| program.tests_with(word)).sum::<usize>();
        left = left.into_iter().filter_map(|program| program.without(word)).collect();
    }
    (left, not_run)
}

/// The end of the last line: what was not run.
pub fn told(absent: &[(Need, String)], not_run: usize) -> String {
    if not_run == 0 {
        return String::new();
    }
    let mut problems: Vec<&str> = absent.iter().map(|(_, problem)| &**problem).collect();
    problems.dedup();
    format!("; {not_run} tests not run: {}", problems.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_left_out_by_their_names_and_counted() {
        let program =
            |name: &str, tests: &[&str]| Program::of(name, tests.iter().map(|&test| test.to_owned()).collect());
        let programs = vec![
            program("registry-corpus", &["a", "b"]),
            program("crd-upgrade-crd_upgrade", &["pairs_of_the_corpus_are_judged_alike", "c"]),
            program("engine", &["engine::d"]),
        ];
        let (left, not_run) = without(programs, &[(Need::Corpus, "none".to_owned())]);
        let left: Vec<_> = left.iter().map(|program| (&*program.name, program.tests.len())).collect();
        assert_eq!((left, not_run), (vec![("crd-upgrade-crd_upgrade", 1), ("engine", 1)], 3));
        assert_eq!(told(&[(Need::Corpus, "none".to_owned())], 3), "; 3 tests not run: none");
        let older = [Need::Policies, Need::Ratcheting].map(|need| (need, "older".to_owned()));
        assert_eq!(told(&older, 2), "; 2 tests not run: older");
        assert_eq!(told(&[], 0), "");
    }
}
