//! Where a source is, as `host/path`, for those who judge it by that.

use crate::hosts::Server;

/// `host/path`, without empty parts of the path. The path is that of an [`Address`](rukpak_content::Address), which has no part
/// that servers resolve.
pub(crate) fn location(server: &Server, path: &str) -> String {
    let parts: Vec<_> = path.split('/').filter(|part| !part.is_empty()).collect();
    format!("{server}/{}", parts.join("/"))
}
