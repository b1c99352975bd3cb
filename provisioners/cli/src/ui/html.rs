//! Parts of pages. Every text is escaped here, and nowhere else.

use std::fmt::Write as _;

use jiff::Timestamp;

use crate::table::count;

/// Characters of a hash that are shown: enough to tell two of them apart.
const HASH: usize = 7;
/// A part of a name that is longer, and has a digit, is a hash.
const WORD: usize = 12;

/// A text as HTML, in content and in attributes.
pub(super) fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            control if control.is_control() && control != '\n' => html.push('\u{fffd}'),
            other => html.push(other),
        }
    }
    html
}

/// A cell: escaped text, or HTML that was made here.
pub(super) enum Cell {
    Text(String),
    Html(String),
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::Text(text.into())
    }
}

impl Cell {
    pub(super) fn into_html(self) -> String {
        match self {
            Self::Text(text) => escaped(&text),
            Self::Html(html) => html,
        }
    }
}

/// Several cells in the place of one. Those without a text are left out.
pub(super) fn beside(cells: impl IntoIterator<Item = Cell>) -> Cell {
    let parts = cells.into_iter().map(Cell::into_html).filter(|part| !part.is_empty());
    Cell::Html(parts.collect::<Vec<_>>().join(" "))
}

/// What is of less interest than the rest.
pub(super) fn quiet(text: &str) -> Cell {
    Cell::Html(format!(r#"<span class="quiet">{}</span>"#, escaped(text)))
}

/// A point in time as people say it, with the exact one for whoever points at it.
pub(super) fn time(at: Timestamp, now: Timestamp) -> Cell {
    let exact = format!("{at:.0}");
    Cell::Html(format!(r#"<time datetime="{exact}" title="{exact}">{}</time>"#, ago(at, now)))
}

fn ago(at: Timestamp, now: Timestamp) -> String {
    let seconds = now.as_second() - at.as_second();
    let (number, unit) = match seconds {
        // Clocks differ.
        ..10 => return "just now".to_owned(),
        10..120 => (seconds, "second"),
        120..7_200 => (seconds / 60, "minute"),
        7_200..172_800 => (seconds / 3_600, "hour"),
        172_800..2_592_000 => (seconds / 86_400, "day"),
        // After a month the date says more.
        _ => return at.to_string().split('T').next().unwrap_or_default().to_owned(),
    };
    format!("{} ago", count(usize::try_from(number).unwrap_or_default(), unit))
}

/// A name, an image or a digest whose hash is cut, with the whole of it for whoever points at it.
pub(super) fn short(name: &str) -> Cell {
    let Some(at) = name.rfind(['-', ':', '@']) else { return name.into() };
    let (rest, hash) = name.split_at(at + 1);
    let is_hash = hash.len() > WORD
        && hash.bytes().all(|byte| byte.is_ascii_alphanumeric())
        && hash.bytes().any(|byte| byte.is_ascii_digit());
    if !is_hash {
        return name.into();
    }
    let shown = escaped(&format!("{rest}{}…", &hash[..HASH]));
    Cell::Html(format!(r#"<abbr title="{}">{shown}</abbr>"#, escaped(name)))
}

/// Good, bad or under way: a word, never a colour alone.
pub(super) fn badge(word: &str, is_good: bool, is_bad: bool) -> Cell {
    let class = match (is_good, is_bad) {
        (true, _) => "good",
        (_, true) => "bad",
        _ => "pending",
    };
    Cell::Html(format!(r#"<span class="badge {class}">{}</span>"#, escaped(word)))
}

pub(super) fn link(target: &str, text: &str) -> Cell {
    Cell::Html(format!(r#"<a href="{}">{}</a>"#, escaped(target), escaped(text)))
}

/// A table with a caption, or a sentence where it has no rows. The first cell of a row is its heading.
pub(super) fn table(caption: &str, heading: &[&str], rows: Vec<Vec<Cell>>, otherwise: &str) -> String {
    let id: String = caption.to_lowercase().replace(' ', "-");
    let mut html = format!(r#"<section aria-labelledby="{id}"><h2 id="{id}">{}</h2>"#, escaped(caption));
    if rows.is_empty() {
        let _ = write!(html, "<p>{}</p></section>", escaped(otherwise));
        return html;
    }
    // A wide table is scrolled by itself, with the keyboard, too.
    let _ = write!(html, r#"<div class="scroll" role="region" aria-labelledby="{id}" tabindex="0">"#);
    // On a phone rows are shown as cards: the roles keep it a table for a screen reader, and each cell bears its heading.
    html.push_str(r#"<table role="table"><thead role="rowgroup"><tr role="row">"#);
    for title in heading {
        let _ = write!(html, r#"<th scope="col" role="columnheader">{}</th>"#, escaped(title));
    }
    html.push_str(r#"</tr></thead><tbody role="rowgroup">"#);
    for row in rows {
        html.push_str(r#"<tr role="row">"#);
        for (index, cell) in row.into_iter().enumerate() {
            let inside = cell.into_html();
            if index == 0 {
                let _ = write!(html, r#"<th scope="row" role="rowheader">{inside}</th>"#);
                continue;
            }
            let label = escaped(heading.get(index).copied().unwrap_or_default());
            let _ = write!(html, r#"<td role="cell" data-label="{label}">{inside}</td>"#);
        }
        html.push_str("</tr>");
    }
    html.push_str("</tbody></table></div></section>");
    html
}

/// A whole page. `root` leads from it to the first one; `live` whether it is asked for again when something has changed.
pub(super) fn page(title: &str, root: &str, live: bool, main: &str) -> String {
    let title = escaped(title);
    let live = if live { format!(r#" data-live="{root}live""#) } else { String::new() };
    format!(
        r##"<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title} - rukpakctl</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
<link rel="stylesheet" href="{root}page.css"><script src="{root}page.js" defer></script></head>
<body{live}><a class="skip" href="#main">Skip to the content</a>
<header><nav aria-label="Pages"><a href="{root}">All</a></nav>
<input id="search" type="search" placeholder="Search" aria-label="Search the tables" autocomplete="off" hidden>
<p id="live" role="status"></p></header>
<main id="main" tabindex="-1"><h1>{title}</h1>
{main}
</main></body></html>
"##
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_wrote_is_no_html() {
        let evil = "<script>alert('x')</script>\u{1b}";
        let made = table("C", &["A", "B"], vec![vec![evil.into(), link(evil, "\"&")]], "");
        assert!(!made.contains("<script") && !made.contains('\u{1b}') && made.contains("&lt;script&gt;"), "{made}");
        assert!(made.contains(r#"<a href="&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;"#), "{made}");
        assert!(page(evil, "", false, "").contains("<title>&lt;script&gt;"));
    }

    #[test]
    fn times_are_told_as_people_say_them() {
        let now: Timestamp = "2026-11-27T20:00:00Z".parse().unwrap();
        let told = |at: &str| ago(at.parse().unwrap(), now);
        for (at, said) in [
            ("2026-11-27T20:00:30Z", "just now"),
            ("2026-11-27T19:59:55Z", "just now"),
            ("2026-11-27T19:59:30Z", "30 seconds ago"),
            ("2026-11-27T19:57:01Z", "2 minutes ago"),
            ("2026-11-27T17:00:00Z", "3 hours ago"),
            ("2026-11-20T19:00:00Z", "7 days ago"),
            ("2026-01-02T03:04:05Z", "2026-01-02"),
        ] {
            assert_eq!(told(at), said, "{at}");
        }
        let html = time(now, now).into_html();
        assert_eq!(html, r#"<time datetime="2026-11-27T20:00:00Z" title="2026-11-27T20:00:00Z">just now</time>"#);
    }

    #[test]
    fn of_names_only_the_hash_is_cut() {
        let whole = "pump-1dgrue9w17wknahn79ahnxj9wgu7patsfbiryj";
        assert_eq!(short(whole).into_html(), format!(r#"<abbr title="{whole}">pump-1dgrue9…</abbr>"#));
        let digest = format!("registry.example.com/pump@sha256:{}", "0a".repeat(32));
        assert!(short(&digest).into_html().ends_with(">registry.example.com/pump@sha256:0a0a0a0…</abbr>"));
        for name in
            ["pump-operator:v1.0.0", "https://example.com/pumps/v1.tgz", "kube-authenticationproxies", "upload", ""]
        {
            assert_eq!(short(name).into_html(), name);
        }
    }

    #[test]
    fn a_table_without_rows_is_a_sentence() {
        assert!(table("Events", &["A"], Vec::new(), "There are none").ends_with("<p>There are none</p></section>"));
    }
}
