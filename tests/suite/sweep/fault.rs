//! What happens at a write.

use std::time::Duration;

use axum::http::StatusCode;
use rukpak_tests::Act;
use rustix::process::{Pid, Signal, kill_process};

use crate::sweep::stage::Stage;

/// An answer that is late, a watch that is silent.
const LATE: Duration = Duration::from_secs(2);
/// As long as etcd is stopped.
const OUTAGE: Duration = Duration::from_secs(10);
/// As long as it may take until everything is right again. After an API server that restarted kube-controller-manager, which has to
/// look at Deployments, waits for its Lease.
pub const RIGHT_WITHIN: Duration = Duration::from_secs(90);
/// As long as a program waits for an answer that does not come.
const UNANSWERED: Duration = Duration::from_secs(50);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// SIGKILL before the write is made.
    KilledBefore,
    /// SIGKILL when it was made and its answer has not come.
    KilledAfter,
    /// SIGKILL at a system call of that name, in place of a write to the API server: the so-many-th of any thread.
    KilledAtCall(&'static str),
    /// It is refused with this status.
    Refused(u16),
    /// Its answer is late.
    Late,
    /// All watches end.
    WatchesCut,
    /// The watches of ConfigMaps, Bundles and deployments are late.
    WatchLate(&'static str),
    /// The same watches lose every event of two seconds, and end because their version is too old.
    EventsLost(&'static str),
    /// As before, and the list that has to follow ends in its middle.
    ListCut(&'static str),
    /// The write is never made, and never answered.
    Swallowed,
    /// It is made, and never answered.
    AnswerSwallowed,
    /// The API server is restarted.
    ApiServerRestarted,
    /// etcd stands still.
    EtcdStopped,
}

/// Those that are tried besides the kills.
pub const OTHERS: [Fault; 17] = [
    Fault::Refused(409),
    Fault::Refused(429),
    Fault::Refused(500),
    Fault::Refused(503),
    Fault::Late,
    Fault::WatchesCut,
    Fault::WatchLate("/configmaps"),
    Fault::WatchLate("/bundles"),
    Fault::WatchLate("/bundledeployments"),
    Fault::EventsLost("/configmaps"),
    Fault::EventsLost("/bundles"),
    Fault::EventsLost("/bundledeployments"),
    Fault::ListCut("/configmaps"),
    Fault::ListCut("/bundles"),
    Fault::ListCut("/bundledeployments"),
    Fault::Swallowed,
    Fault::AnswerSwallowed,
];

/// The system calls by which the store writes, and up to which of each.
pub const CALLS: [(&str, usize); 6] = [
    ("mkdir", 8),
    ("fsync", 8),
    ("rename,renameat,renameat2", 4),
    ("unlink,unlinkat", 6),
    ("openat", 120),
    ("write", 60),
];

impl Fault {
    pub fn name(self) -> String {
        match self {
            Self::KilledBefore => "killed before".to_owned(),
            Self::KilledAfter => "killed after".to_owned(),
            Self::KilledAtCall(call) => format!("killed at {call}"),
            Self::Refused(status) => format!("answer {status}"),
            Self::Late => "answer 2 s late".to_owned(),
            Self::WatchesCut => "watches cut".to_owned(),
            Self::WatchLate(path) => format!("watch {path} 2 s late"),
            Self::EventsLost(path) => format!("2 s of watch {path} lost"),
            Self::ListCut(path) => format!("2 s of watch {path} lost, list cut"),
            Self::Swallowed => "swallowed".to_owned(),
            Self::AnswerSwallowed => "answer swallowed".to_owned(),
            Self::ApiServerRestarted => "API server restarted".to_owned(),
            Self::EtcdStopped => "etcd stopped for 10 s".to_owned(),
        }
    }

    /// What the gate does at the write.
    pub fn act(self) -> Act {
        match self {
            Self::KilledAfter => Act::HoldAnswer,
            Self::Refused(status) => Act::Answer(StatusCode::from_u16(status).expect("it is a status")),
            Self::Late => Act::Late(LATE),
            Self::Swallowed => Act::Swallow,
            Self::AnswerSwallowed => Act::SwallowAnswer,
            _ => Act::HoldRequest,
        }
    }

    /// As long as it may take until everything is right again: the programs wait 50 s for an answer.
    pub fn right_within(self) -> Duration {
        let wait = if matches!(self, Self::Swallowed | Self::AnswerSwallowed) { UNANSWERED } else { Duration::ZERO };
        RIGHT_WITHIN + wait
    }

    /// What happens while the gate holds the write.
    pub async fn strike(self, stage: &Stage) {
        match self {
            Self::KilledBefore | Self::KilledAfter => {
                stage.controller.kill().await.expect("the keeper obeys");
                stage.gate.drop_held();
                stage.controller.restart().await.expect("the controller starts");
            }
            Self::Refused(_) | Self::Late | Self::KilledAtCall(_) | Self::Swallowed | Self::AnswerSwallowed => {}
            Self::WatchesCut => {
                stage.gate.cut_watches();
                stage.gate.release();
            }
            Self::WatchLate(path) => {
                stage.gate.hold_watches(Some(path));
                stage.gate.release();
                tokio::time::sleep(LATE).await;
                stage.gate.hold_watches(None);
            }
            Self::EventsLost(path) | Self::ListCut(path) => {
                stage.gate.lose_events(Some(path));
                stage.gate.release();
                tokio::time::sleep(LATE).await;
                if matches!(self, Self::ListCut(_)) {
                    stage.gate.cut_list(path);
                }
                stage.gate.lose_events(None);
            }
            Self::ApiServerRestarted => {
                stage.plane.restart_apiserver().await.expect("the plane obeys");
                stage.gate.release();
            }
            Self::EtcdStopped => {
                let pid = i32::try_from(stage.plane.pids().expect("the plane runs").etcd).ok().and_then(Pid::from_raw);
                let pid = pid.expect("it is a pid");
                kill_process(pid, Signal::STOP).expect("etcd is ours");
                stage.gate.release();
                tokio::time::sleep(OUTAGE).await;
                kill_process(pid, Signal::CONT).expect("etcd is ours");
            }
        }
    }
}
