//! A page of a list of referrers, and which is the next one.

use http::{HeaderMap, header};
use reqwest::Response;

use super::document::MANIFEST_BYTES;
use crate::image::{Error, transport};

/// A page as it came.
pub(in crate::image) struct Page {
    /// An index.
    pub(in crate::image) body: Vec<u8>,
    /// The query of the next page, `?` included.
    pub(in crate::image) next: Option<String>,
}

impl Page {
    pub(super) async fn read(response: Response, what: &str) -> Result<Self, Error> {
        let next = next(response.headers());
        Ok(Self { body: transport::body(response, what, MANIFEST_BYTES).await?, next })
    }
}

/// Out of `Link: <URL>; rel="next"` (RFC 8288), where only the query differs from page to page (OCI distribution specification
/// 1.1). What else stands in the URL is not used: a list goes on in the same place, and the login is for nobody else.
fn next(headers: &HeaderMap) -> Option<String> {
    let is_next = |parameter: &str| {
        let (name, value) = parameter.split_once('=').unwrap_or_default();
        let value = value.trim_end_matches([',', ' ']).trim_matches('"');
        name.trim().eq_ignore_ascii_case("rel") && value.eq_ignore_ascii_case("next")
    };
    let texts = headers.get_all(header::LINK).iter().filter_map(|value| value.to_str().ok());
    let links = texts.flat_map(|text| text.split('<').skip(1)).filter_map(|link| link.split_once('>'));
    let (url, _) = links.into_iter().find(|(_, parameters)| parameters.split(';').any(is_next))?;
    let (_, query) = url.split('#').next()?.split_once('?')?;
    Some(format!("?{query}"))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn the_next_page_is_named_by_a_link() {
        let next = |link: &'static str| next(&HeaderMap::from_iter([(header::LINK, HeaderValue::from_static(link))]));
        for link in [
            r#"</v2/a/referrers/d?n=1&last=x,y>; rel="next""#,
            r#"<https://h/v2/a/referrers/d?n=1&last=x,y#z>; title="t"; REL=next"#,
            r#"</v2/a?n=0>; rel="prev", <?n=1&last=x,y>;rel="next", </v2/a?n=9>; rel="last""#,
        ] {
            assert_eq!(next(link).as_deref(), Some("?n=1&last=x,y"), "{link}");
        }
        for link in [r#"</a?n=1>; rel="prev""#, "</a?n=1>", "</a>; rel=next", "/a?n=1; rel=next", ""] {
            assert_eq!(next(link), None, "{link}");
        }
    }
}
