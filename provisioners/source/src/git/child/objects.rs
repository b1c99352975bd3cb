//! The commit and the tag as they are stored, for whoever checks who signed them.

use git2::{ErrorCode, ObjectType, Oid, Repository};

use crate::git::{Class, Commit, Failure, Objects, Step};

/// Messages and signatures have some KiB.
const OBJECT_BYTES: usize = 256 * 1024;

/// The commit, and the tag if it is an object of its own that came with it.
pub(super) fn read(
    repository: &Repository,
    commit: &Commit,
    tag: Option<Oid>,
    shown: &str,
) -> Result<Objects, Failure> {
    let refuse = |text: String| Failure::new(Step::Checkout, Class::Terminal, text);
    let object = |oid: Oid, type_: ObjectType| -> Result<Option<Vec<u8>>, Failure> {
        let found = repository.odb().and_then(|objects| {
            // The header first: it says how much there is to read.
            let (size_bytes, found) = objects.read_header(oid)?;
            if found != type_ {
                return Ok(None);
            }
            if size_bytes > OBJECT_BYTES {
                return Ok(Some(Err(format!("{shown}: {type_} {oid} has more than {OBJECT_BYTES} bytes"))));
            }
            Ok(Some(Ok(objects.read(oid)?.data().to_vec())))
        });
        match found {
            Ok(found) => found.transpose().map_err(refuse),
            Err(error) if error.code() == ErrorCode::NotFound => Ok(None),
            Err(error) => Err(refuse(format!("{shown}: {}", error.message()))),
        }
    };
    let oid = Oid::from_str(commit.as_str()).map_err(|error| refuse(error.message().to_owned()))?;
    let own = object(oid, ObjectType::Commit)?.ok_or_else(|| refuse(format!("{shown}: there is no commit {oid}")))?;
    let tag = tag.map(|tag| object(tag, ObjectType::Tag)).transpose()?.flatten();
    Ok(Objects { commit: own, tag })
}
