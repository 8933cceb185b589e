//! DNS records that prove names (DNS-01, RFC 8555, 8.4), set by a configured program.
//!
//! The supervisor runs the program, as it may need files that only root can read. The arguments are
//! those of lego's `exec` provider, the environment is that of certbot's hooks, so programs for
//! both work.

use std::rc::Rc;

use howdah_config::DnsHook;

use super::commands::Run;
use super::context::RenewalContext;

/// A TXT record. Dropping it runs the program's `cleanup` in the background.
pub(super) struct DnsRecord {
    context: Rc<RenewalContext>,
    hook: DnsHook,
    domain: String,
    value: String,
}

impl DnsRecord {
    /// Runs the program's `present` and waits for its end. Error: the reason why it failed.
    pub async fn create(
        context: &Rc<RenewalContext>,
        hook: &DnsHook,
        domain: &str,
        value: String,
    ) -> Result<DnsRecord, String> {
        let (context, domain) = (Rc::clone(context), domain.to_owned());
        let record = DnsRecord { context, hook: hook.clone(), domain, value };
        let presented = record.context.run(record.run("present")).await;
        presented.map_err(|problem| format!("{}: {problem}", hook.program.display()))?;
        Ok(record)
    }

    /// Returns the program's arguments and environment for an action (`present`, `cleanup`).
    fn run(&self, action: &str) -> Run {
        let record = format!("_acme-challenge.{}.", self.domain);
        let environment = [("CERTBOT_DOMAIN", &self.domain), ("CERTBOT_VALIDATION", &self.value)];
        let owned = |(name, value): (&str, &String)| (name.to_owned(), value.clone());
        Run {
            program: self.hook.program.to_string_lossy().into_owned(),
            arguments: vec![action.to_owned(), record, self.value.clone()],
            environment: environment.into_iter().map(owned).collect(),
            timeout_ms: u64::try_from(self.hook.timeout.as_millis()).unwrap_or(u64::MAX),
        }
    }
}

impl Drop for DnsRecord {
    fn drop(&mut self) {
        self.context.run_in_background(self.run("cleanup"));
    }
}
