//! What others have published of themselves, beside our figures of the same kind. Their machines and their objects were others: a ratio
//! says whether we are in the same world. RukPak has published nothing.

use super::report::{Row, Unit};

/// A figure that somebody published.
struct Published {
    /// The row beside which it is noted.
    beside: &'static str,
    unit: Unit,
    figure: f64,
    whose: &'static str,
}

/// Flux: fluxcd/flux-benchmark, `RESULTS.md` of Flux 2.5, applications of 4 objects, 16 cores, 2 of them for the controller.
/// OLM v1: operator-framework/operator-controller#2308; operator-framework/catalogd, profile of operatorhub.io's catalog (1,301
/// bundles), March 2023.
const PUBLISHED: [Published; 10] = [
    of("install 100 x 10", Unit::Seconds, 28.0, "Flux, 100 Kustomizations of 4 objects"),
    of("install 100 x 10", Unit::Seconds, 27.0, "Flux, 100 HelmReleases of 4 objects"),
    of("install 1000 x 10", Unit::Seconds, 256.0, "Flux, 1,000 Kustomizations of 4 objects"),
    of("install 1000 x 10", Unit::Seconds, 492.0, "Flux, 1,000 HelmReleases of 4 objects"),
    of("memory, 100 x 10", Unit::Mebibytes, 32.0, "Flux, 100 Kustomizations of 4 objects"),
    of("memory, 100 x 10", Unit::Mebibytes, 190.0, "Flux, 100 HelmReleases of 4 objects"),
    of("memory, 1000 x 10", Unit::Mebibytes, 175.0, "Flux, 1,000 Kustomizations of 4 objects"),
    of("memory, 1000 x 10", Unit::Mebibytes, 400.0, "Flux, 1,000 HelmReleases of 4 objects"),
    of("memory, 20 x 10", Unit::Mebibytes, 102.9, "OLM v1's operator-controller in its end-to-end tests"),
    of("memory of rukpak-platform, 300 PlatformOperators", Unit::Mebibytes, 232.0, "OLM v1's catalogd, 1,301 bundles"),
];

const fn of(beside: &'static str, unit: Unit, figure: f64, whose: &'static str) -> Published {
    Published { beside, unit, figure, whose }
}

/// Notes the ratio to each published figure beside the row of its kind.
pub(crate) fn note(rows: &mut [Row]) {
    for row in rows {
        let alike = PUBLISHED.iter().filter(|one| one.beside == row.what && one.unit == row.unit);
        let notes: Vec<String> = alike
            .map(|Published { unit, figure, whose, .. }| {
                format!("x {:.2} of the {} of {whose}", row.measured / figure, unit.text(*figure))
            })
            .collect();
        if !notes.is_empty() {
            row.note = format!("{}; {}", notes.join(", "), row.note);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_the_ratio_beside_the_row_of_its_kind() {
        let row = |what: &str| Row {
            what: what.to_owned(),
            measured: 14.0,
            unit: Unit::Seconds,
            target: None,
            note: "how".to_owned(),
        };
        let mut rows = [row("install 100 x 10"), row("install 7 x 10")];
        note(&mut rows);
        assert!(rows[0].note.starts_with("x 0.50 of the 28.00 s of Flux, 100 Kustomizations"), "{}", rows[0].note);
        assert_eq!(rows[1].note, "how");
    }
}
