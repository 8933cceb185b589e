//! `howdah jobs`: lists, runs, pauses and resumes jobs, and shows their last lines.

use howdah_questions::{JobLine, JobStatus, Jobs};
use howdah_sys::clock;

use crate::STATUS_TIMEOUT;
use crate::args::jobs::{JobName, JobsArgs, JobsCommand};
use crate::client::encode;
use crate::failure::Failure;
use crate::find::connect_as_site_user;
use crate::output::{json_text, print_outcome, printable, write_out};
use crate::status::columns;

/// Runs the command.
pub(super) fn run(args: &JobsArgs) -> Result<(), Failure> {
    let client = connect_as_site_user(&args.server)?.with_timeout(STATUS_TIMEOUT);
    let (order, name) = match &args.command {
        JobsCommand::List { application, json } => {
            let answer = client.request("GET", "/jobs", b"")?;
            if *json && application.is_none() {
                return write_out(&json_text(&answer));
            }
            let mut jobs: Jobs = client.read(answer)?;
            if let Some(name) = application {
                jobs.retain(|known, _| known == name);
                if jobs.is_empty() {
                    return Err(Failure::Failed(format!("\"{name}\" has no jobs")));
                }
            }
            let text = if *json {
                json_text(&serde_json::json!(jobs))
            } else {
                table(&jobs, clock::wall_seconds())
            };
            return write_out(&text);
        }
        JobsCommand::Logs(JobName { application, job }) => {
            let target = format!("/jobs/{}/{}/log", encode(application), encode(job));
            let lines: Vec<JobLine> = client.read(client.request("GET", &target, b"")?)?;
            return write_out(&lines.iter().map(line).collect::<String>());
        }
        JobsCommand::Run(name) => ("run", name),
        JobsCommand::Pause(name) => ("pause", name),
        JobsCommand::Resume(name) => ("resume", name),
    };
    let (application, job) = (encode(&name.application), encode(&name.job));
    let target = format!("/control/applications/{application}/jobs/{job}/{order}");
    print_outcome(&client.request("POST", &target, b"")?)
}

/// Formats a line of a job with its time.
fn line(line: &JobLine) -> String {
    let mut text = String::new();
    clock::log_date(line.at, &mut text);
    format!("{text}  {}\n", printable(&line.text))
}

/// Returns the table of jobs at a time, in seconds since 1970.
fn table(jobs: &Jobs, now: u64) -> String {
    if jobs.is_empty() {
        return "The configuration has no \"jobs\".\n".to_owned();
    }
    let headings = [
        "SITE",
        "JOB",
        "STATE",
        "PROCESSES",
        "RUNS",
        "FAILED",
        "LEFT OUT",
        "LAST RUN",
        "TOOK",
        "NEXT RUN",
        "LAST END",
    ];
    let mut rows = vec![headings.map(str::to_owned).to_vec()];
    for (application, jobs) in jobs {
        for (name, job) in jobs {
            let JobStatus { state, processes, runs, failed, left_out, .. } = job;
            let ago = |at: u64| format!("{} ago", duration(now.saturating_sub(at)));
            let ahead = |at: u64| format!("in {}", duration(at.saturating_sub(now)));
            let took = |ms: u64| match ms {
                0..60_000 => format!("{:.1} s", ms as f64 / 1000.0),
                _ => duration(ms / 1000),
            };
            let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
            rows.push(vec![
                printable(application),
                printable(name),
                printable(state),
                processes.len().to_string(),
                runs.to_string(),
                failed.to_string(),
                left_out.to_string(),
                or_none(job.last_start.map(ago)),
                or_none(job.last_duration.map(took)),
                or_none(job.next_run.map(ahead)),
                or_none(job.last_end.as_deref().map(printable)),
            ]);
        }
    }
    columns(&rows, &[0, 1, 2, 10])
}

/// Formats seconds with one unit, or two.
fn duration(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..86_400 => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_job_is_a_row() {
        let jobs = json!({"shop": {
            "queue": {"state": "running", "processes": [7, 8], "runs": 3, "failed": 1,
                "last_start": 940, "last_duration": 1500, "last_end": "process 5 exited with status 1"},
            "backup\u{1b}": {"state": "waiting", "processes": [], "left_out": 2, "next_run": 90_000},
        }});
        let text = table(&serde_json::from_value(jobs).unwrap(), 1000);
        let lines: Vec<Vec<_>> = text.lines().map(|line| line.split("  ").collect()).collect();
        let has = |line: usize, word: &str| lines[line].iter().any(|cell| cell.trim() == word);
        assert!(has(1, "running") && has(1, "1 min ago") && has(1, "1.5 s"), "{text}");
        assert!(has(1, "process 5 exited with status 1"), "{text}");
        assert!(has(2, "in 1 d 0 h") && has(2, "-") && !text.contains('\u{1b}'), "{text}");
        assert!(table(&Jobs::default(), 0).contains("no \"jobs\""));
    }
}
