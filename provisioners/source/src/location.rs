//! Where a source is, as `host/path`, for those who judge it by that.

use crate::hosts::Server;

/// `host/path`, without empty parts of the path. `None` for a path that [`climbs`].
pub(crate) fn location(server: &Server, path: &str) -> Option<String> {
    let parts: Vec<_> = path.split('/').filter(|part| !part.is_empty()).collect();
    (!climbs(path)).then(|| format!("{server}/{}", parts.join("/")))
}

/// Whether a part of `path` is `.` or `..`, as it stands or once percent-encoding is undone: servers resolve these, so that the
/// path names another place than its text says.
pub(crate) fn climbs(path: &str) -> bool {
    let path = path.to_ascii_lowercase().replace("%2e", ".").replace("%2f", "/").replace("%5c", "\\");
    path.split(['/', '\\']).any(|part| matches!(part, "." | ".."))
}
