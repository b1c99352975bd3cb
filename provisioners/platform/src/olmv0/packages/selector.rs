//! Selectors as they stand in a query: labels (`a=b,c!=d,e in (f,g),h notin (i),j,!k`), and the one field. Pure.

use std::collections::BTreeSet;

use kube::core::{Expression, Selector};

/// Reads a selector of labels.
pub(super) fn labels(text: &str) -> Result<Selector, String> {
    terms(text).into_iter().map(|term| expression(term.trim())).collect()
}

/// Reads a selector of fields; returns the name that it asks for, if it does.
///
/// # Errors
/// Fields other than the name, in upstream's words.
pub(super) fn name(text: &str) -> Result<Option<String>, String> {
    let mut named = None;
    for term in text.split(',').filter(|term| !term.is_empty()) {
        let Some((key, value)) = term.split_once('=') else {
            return Err(format!("invalid field selector: {term:?}; ask for metadata.name=NAME"));
        };
        match key {
            "metadata.name" => named = Some(value.strip_prefix('=').unwrap_or(value).to_owned()),
            "metadata.name!" => return Err("metadata.name!= is not supported".to_owned()),
            _ => return Err(format!("field label not supported: {}", key.trim_end_matches('!'))),
        }
    }
    Ok(named)
}

/// The parts between commas that are in no brackets.
fn terms(text: &str) -> Vec<&str> {
    let (mut terms, mut start, mut is_in_brackets) = (Vec::new(), 0, false);
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'(' => is_in_brackets = true,
            b')' => is_in_brackets = false,
            b',' if !is_in_brackets => {
                terms.push(&text[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[start..]);
    // An empty selector takes everything.
    if text.trim().is_empty() { Vec::new() } else { terms }
}

fn expression(term: &str) -> Result<Expression, String> {
    if let Some(key) = term.strip_prefix('!') {
        return Ok(Expression::DoesNotExist(checked(key)?));
    }
    if let Some((key, value)) = term.split_once("!=") {
        return Ok(Expression::NotEqual(checked(key)?, plain(value)?));
    }
    if let Some((key, value)) = term.split_once('=') {
        return Ok(Expression::Equal(checked(key)?, plain(value.strip_prefix('=').unwrap_or(value))?));
    }
    let Some((left, values)) = term.split_once('(') else { return Ok(Expression::Exists(checked(term)?)) };
    let values = values.strip_suffix(')').ok_or_else(|| format!("{term:?} has no closing bracket"))?;
    let values = values.split(',').map(plain).collect::<Result<BTreeSet<String>, String>>()?;
    match left.trim_end().rsplit_once(char::is_whitespace) {
        Some((key, "in")) => Ok(Expression::In(checked(key)?, values)),
        Some((key, "notin")) => Ok(Expression::NotIn(checked(key)?, values)),
        _ => Err(format!("{term:?}: only in and notin stand before a bracket")),
    }
}

fn checked(key: &str) -> Result<String, String> {
    let key = plain(key)?;
    if key.is_empty() { Err("a label has no name".to_owned()) } else { Ok(key) }
}

/// Text without anything that would be part of a selector.
fn plain(text: &str) -> Result<String, String> {
    let text = text.trim();
    let is_special = |character: char| character.is_whitespace() || "!=(),<>".contains(character);
    if text.contains(is_special) {
        Err(format!("{text:?} is neither name nor value of a label"))
    } else {
        Ok(text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use kube::core::SelectorExt as _;

    use super::*;

    #[test]
    fn labels_are_selected_by_equality_and_by_sets() {
        let have = BTreeMap::from([("catalog".to_owned(), "community".to_owned()), ("tier".to_owned(), String::new())]);
        for (text, expected) in [
            ("", true),
            ("catalog=community", true),
            ("catalog==community , tier=", true),
            ("catalog!=community", false),
            ("catalog!=other,absent!=x", true),
            ("catalog in (other, community),tier", true),
            ("catalog in (other)", false),
            ("catalog notin (other,third)", true),
            ("absent notin (x)", true),
            ("absent", false),
            ("!absent,tier", true),
            ("! tier", false),
        ] {
            assert_eq!(labels(text).unwrap().matches(&have), expected, "{text}");
        }
        for text in ["=x", "a in b", "a in (b", "a,,b", "a<1", "a b", "x within (y)", "a in (b)(c)"] {
            assert!(labels(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_name_is_the_only_field() {
        assert_eq!(name(""), Ok(None));
        assert_eq!(name("metadata.name=pump"), Ok(Some("pump".to_owned())));
        assert_eq!(name("metadata.name==pump"), Ok(Some("pump".to_owned())));
        assert_eq!(name("metadata.namespace=a").unwrap_err(), "field label not supported: metadata.namespace");
        assert_eq!(name("status.x!=a").unwrap_err(), "field label not supported: status.x");
        assert!(name("pump").is_err());
    }
}
