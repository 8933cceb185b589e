//! Keeps the last slow scripts with their stacks, in bounded memory: at most 200 of 64 calls.

use std::collections::VecDeque;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use howdah_access_log::secrets;
use howdah_http::mask::mask_query;
use howdah_http::message::ShownRequestId;
use howdah_php_pool::status::SlowRequest;
use howdah_questions::{SlowScript, SlowScripts};
use howdah_text::date;
use howdah_wire::messages::Stack;
use tokio::sync::oneshot;

use super::command::Commands;
use super::question::Question;

/// Maximum number of scripts, of all applications and of one.
const MAX_SCRIPTS: usize = 200;
const MAX_OF_APPLICATION: usize = 10;

/// Maximum number of calls of a stack, and of bytes of a call, a target or a path.
const MAX_CALLS: usize = 64;
const MAX_TEXT: usize = 512;

/// The last slow scripts, the oldest first.
#[derive(Debug, Default)]
pub(super) struct KeptScripts(VecDeque<SlowScript>);

impl KeptScripts {
    /// Keeps a script.
    pub(super) fn add(&mut self, slow: &SlowRequest, is_ended: bool, stack: &Stack) {
        let context = &slow.context;
        let seconds = |micros: u64| Duration::from_micros(micros).as_secs_f64();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut time = String::new();
        date::rfc3339(now, &mut time);
        self.push(SlowScript {
            time,
            id: ShownRequestId(context.id).to_string(),
            application: context.application.to_string(),
            site: context.site.to_string(),
            method: cut(&context.method),
            target: cut(&context.target),
            script: cut(context.script.as_os_str().as_encoded_bytes()),
            waited: seconds(slow.times.waited),
            ran: seconds(slow.times.ran),
            is_ended,
            stack: match stack {
                Ok(calls) => {
                    calls.iter().take(MAX_CALLS).map(|call| cut(call.as_bytes())).collect()
                }
                Err(_) => Vec::new(),
            },
            problem: stack.as_ref().err().cloned(),
        });
    }

    fn push(&mut self, script: SlowScript) {
        let is_same = |other: &SlowScript| other.application == script.application;
        if self.0.iter().filter(|other| is_same(other)).count() >= MAX_OF_APPLICATION {
            let oldest = self.0.iter().position(is_same);
            oldest.map(|at| self.0.remove(at));
        } else if self.0.len() >= MAX_SCRIPTS {
            self.0.pop_front();
        }
        self.0.push_back(script);
    }

    /// Returns the scripts of a site or application, or all of them, the newest first; only those
    /// that these applications run.
    pub(super) fn of(
        &self,
        name: Option<&str>,
        applications: Option<&[String]>,
    ) -> Vec<SlowScript> {
        let is_wanted = |script: &&SlowScript| {
            name.is_none_or(|name| script.application == name || script.site == name)
                && applications.is_none_or(|those| those.contains(&script.application))
        };
        self.0.iter().rev().filter(is_wanted).cloned().collect()
    }
}

impl Commands {
    /// Returns the last slow scripts of a site or application, or of all; only those of
    /// `applications`.
    pub(super) async fn slow_scripts(
        &self,
        name: Option<String>,
        applications: Option<Vec<String>>,
    ) -> SlowScripts {
        let (done, scripts) = oneshot::channel();
        let _ = self.questions.send(Question::SlowScripts { name, applications, done });
        let mut scripts = scripts.await.unwrap_or_default();
        let secrets = secrets(&self.shared.snapshot.load().config);
        for script in &mut scripts {
            let mut target = std::mem::take(&mut script.target).into_bytes();
            mask_query(&mut target, 0, &secrets);
            script.target = String::from_utf8_lossy(&target).into_owned();
        }
        SlowScripts { scripts }
    }
}

/// Returns the beginning of a text.
fn cut(text: &[u8]) -> String {
    match text.get(..MAX_TEXT) {
        Some(start) if start.len() < text.len() => {
            String::from_utf8_lossy(start).into_owned() + "…"
        }
        _ => String::from_utf8_lossy(text).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(application: &str, number: usize) -> SlowScript {
        SlowScript {
            application: application.to_owned(),
            site: format!("of {application}"),
            id: number.to_string(),
            ..SlowScript::default()
        }
    }

    #[test]
    fn an_application_with_many_slow_scripts_leaves_room_for_others() {
        let mut kept = KeptScripts::default();
        kept.push(script("calm", 0));
        (0..1_000).for_each(|number| kept.push(script("busy", number)));
        let busy = kept.of(Some("busy"), None);
        assert_eq!((busy.len(), busy[0].id.as_str()), (MAX_OF_APPLICATION, "999"));
        assert_eq!(kept.of(Some("of calm"), None).len(), 1);
        (0..1_000).for_each(|number| kept.push(script(&number.to_string(), number)));
        assert_eq!(kept.of(None, None).len(), MAX_SCRIPTS);
    }

    #[test]
    fn of_some_applications_those_of_others_are_left_out_whatever_they_are_called() {
        let mut kept = KeptScripts::default();
        kept.push(script("own", 0));
        kept.push(SlowScript { site: "own".to_owned(), ..script("foreign", 1) });
        let own = [String::from("own")];
        for name in [None, Some("own")] {
            let found = kept.of(name, Some(&own));
            assert_eq!(found.len(), 1, "{found:?}");
            assert_eq!(found[0].application, "own");
        }
        assert_eq!(kept.of(Some("foreign"), Some(&own)), []);
        assert_eq!(kept.of(None, Some(&[])), []);
    }

    #[test]
    fn long_texts_are_cut() {
        assert_eq!(cut("é".repeat(255).as_bytes()).chars().count(), 255);
        assert_eq!(cut(&[b'x'; 600]).chars().count(), MAX_TEXT + 1);
    }
}
