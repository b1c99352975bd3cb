//! Parts of pages. Every text is escaped here, and nowhere else.

use std::fmt::Write as _;

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
    let _ = write!(html, r#"<div class="scroll" role="region" aria-labelledby="{id}" tabindex="0"><table><thead><tr>"#);
    for title in heading {
        let _ = write!(html, r#"<th scope="col">{}</th>"#, escaped(title));
    }
    html.push_str("</tr></thead><tbody>");
    for row in rows {
        html.push_str("<tr>");
        for (index, cell) in row.into_iter().enumerate() {
            let inside = match cell {
                Cell::Text(text) => escaped(&text),
                Cell::Html(html) => html,
            };
            let tag = if index == 0 { r#"th scope="row""# } else { "td" };
            let end = if index == 0 { "th" } else { "td" };
            let _ = write!(html, "<{tag}>{inside}</{end}>");
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
<header><nav aria-label="Pages"><a href="{root}">All</a></nav><p id="live" role="status"></p></header>
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
    fn a_table_without_rows_is_a_sentence() {
        assert!(table("Events", &["A"], Vec::new(), "There are none").ends_with("<p>There are none</p></section>"));
    }
}
