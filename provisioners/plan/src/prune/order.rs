//! What a pass of pruning asks for, what it is told, and what it comes to.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rukpak_plain::ObjectKey;

use super::Guard;
use crate::Identity;

/// An object that is in no release any more, as it was seen last.
#[derive(Clone, Debug, PartialEq)]
pub struct Leaving {
    /// Where it is.
    pub identity: Identity,
    /// Its metadata.
    pub metadata: Arc<ObjectMeta>,
}

/// What is to be sent for one object.
#[derive(Clone, Debug, PartialEq)]
pub struct Order {
    /// By which the answer is given.
    pub id: usize,
    /// The object as it was seen last. Only this very object, in this very version, may be written.
    pub object: Leaving,
    /// What to send.
    pub request: Request,
}

/// What the pass wants to know or to have done.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// Look whether anything would be lost with the object.
    Ask {
        /// What hangs on it.
        guard: Guard,
        /// What is about to be deleted, or is gone: nothing is lost that only hangs on it.
        going: Arc<BTreeSet<ObjectKey>>,
    },
    /// Read its metadata.
    Look,
    /// Delete it.
    Delete,
    /// Take our marks off: it stays in the cluster, nobody's.
    Release {
        /// Why.
        reason: String,
    },
    /// Take our owner reference off: it is left to the BundleDeployments that share it.
    HandOver,
    /// Find the version that its kind is served in by now.
    FollowVersion,
    /// Ask the API server, not a cache, whether the deployment still asks for what this pass does: who wrote the object meanwhile may be
    /// another of our controllers, that installs a release which has it.
    AskWanted,
}

/// What came of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// What would be lost, in words; `None` if nothing would.
    WouldLose(Option<String>),
    /// It cannot be seen whether anything would be lost.
    Unseen {
        /// In words.
        why: String,
        /// Whether it may be seen in a moment.
        is_transient: bool,
    },
    /// The metadata; `None` if there is no such object.
    Seen(Option<Box<ObjectMeta>>),
    /// It is done; what was deleted is gone.
    Done,
    /// The deletion is accepted. Whether the object is gone is not known.
    Accepted,
    /// There is no such object, in this version of its kind.
    Absent,
    /// It is another object, or another version of it, by now.
    Conflict(String),
    /// It failed.
    Refused(String),
    /// Where it is in a version that is served; `None` if no other version is.
    Version(Option<Identity>),
    /// Whether the deployment still asks for what this pass does.
    Wanted(bool),
}

/// What became of an object in this pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// It is not there any more, or not ours.
    Gone,
    /// It is left in the cluster, without an owner.
    Released {
        /// Why.
        reason: String,
    },
    /// It belongs to those who share it.
    HandedOver,
    /// It is left as it is, for its annotation says so.
    Paused,
    /// It is being deleted.
    Waits {
        /// What for, in words.
        why: String,
    },
    /// It could not be deleted.
    Failed {
        /// Why.
        why: String,
    },
    /// The deployment asks for something else by now: it may stay.
    Unwanted,
}

/// What a pass has come to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// What could not be deleted, a line an object.
    pub failed: Vec<String>,
    /// What is being deleted, with what it waits for.
    pub waiting: Vec<(ObjectKey, String)>,
    /// What is left as it is because it says so.
    pub paused: BTreeSet<ObjectKey>,
    /// Whether a question got no answer that may be answered in a moment.
    pub is_unanswered: bool,
    /// Whether the deployment asks for something else by now. The rest of the pass was not carried out.
    pub is_superseded: bool,
}
