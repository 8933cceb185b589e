//! `howdah site usage`: what sites have used in a month, as a table.

use howdah_questions::{SiteUsage, Usage};
use serde_json::Value;

use crate::STATUS_TIMEOUT;
use crate::args::Server;
use crate::args::usage::UsageArgs;
use crate::client::encode;
use crate::failure::Failure;
use crate::find::connect;
use crate::output::{json_text, printable, write_out};
use crate::status::columns;

/// Runs the command.
pub(super) fn run(server: &Server, args: &UsageArgs) -> Result<(), Failure> {
    let client = connect(server)?.with_timeout(STATUS_TIMEOUT);
    let target = match &args.month {
        Some(month) => format!("/usage/{}", encode(month)),
        None => "/usage".to_owned(),
    };
    let mut answer = client.request("GET", &target, b"")?;
    let mut whose = String::new();
    let sites = answer.get_mut("sites").and_then(Value::as_object_mut);
    if let (Some(sites), Some(site)) = (sites, &args.site) {
        sites.retain(|name, _| name == site);
        whose = format!(" of \"{site}\"");
    }
    let usage: Usage = client.read(answer.clone())?;
    if usage.sites.is_empty() && (args.site.is_some() || args.month.is_some()) {
        let problem = format!("there are no counts{whose} in {}", usage.month);
        return Err(Failure::Failed(problem));
    }
    if args.json { write_out(&json_text(&answer)) } else { write_out(&table(&usage)) }
}

/// Returns the table of a response of `/usage`.
fn table(usage: &Usage) -> String {
    let headings = [&*usage.month, "REQUESTS", "ERRORS", "RECEIVED", "SENT", "PHP", "MAILS"];
    let mut rows = vec![headings.map(str::to_owned).to_vec()];
    for (name, used) in &usage.sites {
        let SiteUsage { requests, errors, received, sent, php_us, mails } = *used;
        rows.push(vec![
            printable(name),
            requests.to_string(),
            errors.to_string(),
            bytes(received),
            bytes(sent),
            format!("{:.1}", php_us as f64 / 1e6),
            mails.to_string(),
        ]);
    }
    columns(&rows, &[0])
}

/// Formats bytes with a unit and three digits at least.
fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KB", "MB", "GB", "TB", "PB"];
    let (mut value, mut unit) = (bytes as f64 / 1024.0, 0);
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_site_is_a_row() {
        let usage = json!({"month": "2026-11", "sites": {
            "blog\u{1b}": {"requests": 12, "errors": 3, "received": 512, "sent": 3_500_000, "mails": 2},
            "shop": {"requests": 1_000_000, "received": 1u64 << 53, "php_seconds": 1234.56},
        }});
        let text = table(&serde_json::from_value(usage).unwrap());
        assert_eq!(
            text,
            "\
2026-11  REQUESTS  ERRORS  RECEIVED    SENT     PHP  MAILS
blog\u{fffd}          12       3    0.5 KB  3.3 MB     0.0      2
shop      1000000       0    8.0 PB  0.0 KB  1234.6      0
"
        );
    }
}
