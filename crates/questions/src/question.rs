//! The questions.

use serde::{Deserialize, Serialize};

use crate::bytes;
use crate::jobs::JobOrder;
use crate::last_requests::RequestFilter;
use crate::profile::ProfileOrder;
use crate::purge::Purge;

/// A question to the router, or an order that it carries out at once. A `cache` of `None` means all
/// caches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Question {
    /// Asks whether the router answers.
    Ping,
    /// The content of `/status`.
    Status,
    /// What each site has used in a month.
    Usage {
        /// The month, such as `2026-11`; this one if `None`.
        month: Option<String>,
    },
    /// The last requests of clients.
    LastRequests(RequestFilter),
    /// The last slow scripts with their stacks.
    SlowScripts {
        /// The site or the application; all if `None`.
        name: Option<String>,
        /// Only scripts that these applications run; those of all if `None`.
        #[serde(default)]
        applications: Option<Vec<String>>,
    },
    /// The pools of applications by name, with the names of `fpm_get_status()`.
    Pools {
        /// The application; all if `None`.
        application: Option<String>,
    },
    /// The reasons for an application's number of processes.
    Tuning {
        /// The application.
        application: String,
    },
    /// Replace all processes of an application, without interrupting a request. Answered when the
    /// new processes serve, or with the reason why they do not start.
    Restart {
        /// The application.
        application: String,
    },
    /// The jobs of applications.
    Jobs {
        /// The applications; all if `None`.
        applications: Option<Vec<String>>,
    },
    /// The last lines of a job.
    JobLog {
        /// The application.
        application: String,
        /// The job.
        job: String,
    },
    /// Run, pause or resume a job.
    OrderJob {
        /// The application.
        application: String,
        /// The job.
        job: String,
        /// The order.
        order: JobOrder,
    },
    /// Take the stacks of a site's scripts for a while. Answered at its end.
    Profile(ProfileOrder),
    /// Purge stored responses.
    PurgeCaches {
        /// Name of the cache.
        cache: Option<String>,
        /// The entries to purge.
        purge: Purge,
        /// The responses become stale instead of being removed.
        is_soft: bool,
    },
    /// The stored responses that were requested most.
    TopCaches {
        /// Name of the cache.
        cache: Option<String>,
    },
    /// The stored responses of a URL, and the reason why it has none.
    InspectCaches {
        /// Name of the cache.
        cache: Option<String>,
        /// Host, in lower case without port.
        #[serde(with = "bytes")]
        host: Vec<u8>,
        /// Decoded path.
        #[serde(with = "bytes")]
        path: Vec<u8>,
        /// Query.
        #[serde(with = "bytes")]
        query: Vec<u8>,
    },
}

/// The subject of a question. If it has no answer, the subject does not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject<'a> {
    /// The server.
    Server,
    /// The application of this name.
    Application(&'a str),
    /// The cache of this name, or all caches.
    Cache(Option<&'a str>),
    /// The job of this application and name.
    Job(&'a str, &'a str),
}

impl Question {
    /// Returns true if it asks about the state as it is: the answer takes no work of an application
    /// and changes nothing.
    pub fn only_reads(&self) -> bool {
        match self {
            Question::Ping
            | Question::Status
            | Question::Usage { .. }
            | Question::LastRequests(_)
            | Question::SlowScripts { .. }
            | Question::Pools { .. }
            | Question::Tuning { .. }
            | Question::Jobs { .. }
            | Question::JobLog { .. }
            | Question::TopCaches { .. }
            | Question::InspectCaches { .. } => true,
            Question::Restart { .. }
            | Question::OrderJob { .. }
            | Question::Profile(_)
            | Question::PurgeCaches { .. } => false,
        }
    }

    /// Returns the subject of the question.
    pub fn subject(&self) -> Subject<'_> {
        match self {
            Question::Ping
            | Question::Status
            | Question::Usage { .. }
            | Question::LastRequests(_)
            | Question::SlowScripts { .. }
            | Question::Jobs { .. }
            | Question::Pools { .. } => Subject::Server,
            Question::JobLog { application, job } | Question::OrderJob { application, job, .. } => {
                Subject::Job(application, job)
            }
            Question::Tuning { application }
            | Question::Restart { application }
            | Question::Profile(ProfileOrder { site: application, .. }) => {
                Subject::Application(application)
            }
            Question::PurgeCaches { cache, .. }
            | Question::TopCaches { cache }
            | Question::InspectCaches { cache, .. } => Subject::Cache(cache.as_deref()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![any::<Vec<u8>>(), any::<String>().prop_map(String::into_bytes)]
    }

    fn purge() -> impl Strategy<Value = Purge> {
        let host = || proptest::option::of(bytes());
        prop_oneof![
            Just(Purge::All),
            bytes().prop_map(Purge::Host),
            (bytes(), bytes(), bytes()).prop_map(|(host, path, query)| Purge::Url {
                host,
                path,
                query
            }),
            (host(), bytes()).prop_map(|(host, path)| Purge::Prefix { host, path }),
            (host(), proptest::collection::vec(bytes(), 0..4))
                .prop_map(|(host, tags)| Purge::Tags { host, tags }),
        ]
    }

    proptest! {
        #[test]
        fn a_purge_of_any_bytes_is_read_back(purge in purge(), is_soft: bool) {
            let question = Question::PurgeCaches { cache: None, purge, is_soft };
            let text = serde_json::to_string(&question).unwrap();
            prop_assert_eq!(serde_json::from_str::<Question>(&text).unwrap(), question);
        }

        #[test]
        fn a_text_that_is_no_question_is_refused(text: String) {
            prop_assert!(serde_json::from_str::<Question>(&text).is_err());
        }
    }

    #[test]
    fn text_is_not_longer_than_its_bytes() {
        let tags = vec!["ü".repeat(30_000).into_bytes(); 1];
        let purge = Purge::Tags { host: None, tags };
        assert!(serde_json::to_string(&purge).unwrap().len() < 60_100);
    }
}
