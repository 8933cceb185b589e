//! DNS records, by a program of the user's (DNS-01). The supervisor runs it: it may need what only
//! root can read. Its arguments are those that lego's `exec` takes, its environment has what
//! certbot's hooks take, so that programs for either serve here.

use std::rc::Rc;

use howdah_config::DnsHook;

use super::keeper::Office;

/// A record that is there until this goes.
pub(super) struct Record {
    office: Rc<Office>,
    hook: DnsHook,
    domain: String,
    value: String,
}

/// A run of the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// The program.
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Its environment.
    pub environment: Vec<(String, String)>,
    /// How long it may take, in milliseconds.
    pub timeout_ms: u64,
}

impl Record {
    /// Has a record made.
    pub async fn make(
        office: &Rc<Office>,
        hook: &DnsHook,
        domain: &str,
        value: String,
    ) -> Result<Record, String> {
        let record = Record {
            office: Rc::clone(office),
            hook: hook.clone(),
            domain: domain.to_owned(),
            value,
        };
        let run = record.run("present");
        office
            .run(run)
            .await
            .map_err(|problem| format!("{}: {problem}", hook.program.display()))?;
        Ok(record)
    }

    fn run(&self, what: &str) -> Run {
        let record = format!("_acme-challenge.{}.", self.domain);
        let environment = [("CERTBOT_DOMAIN", &self.domain), ("CERTBOT_VALIDATION", &self.value)];
        let own = |(name, value): (&str, &String)| (name.to_owned(), value.clone());
        Run {
            program: self.hook.program.to_string_lossy().into_owned(),
            arguments: vec![what.to_owned(), record, self.value.clone()],
            environment: environment.into_iter().map(own).collect(),
            timeout_ms: u64::try_from(self.hook.timeout.as_millis()).unwrap_or(u64::MAX),
        }
    }
}

impl Drop for Record {
    /// Nobody waits for it: the proof is over, whatever came of it.
    fn drop(&mut self) {
        self.office.run_aside(self.run("cleanup"));
    }
}
