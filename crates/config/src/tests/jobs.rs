//! Jobs of applications.

use howdah_jobs::{Restart, StopSignal};

use super::*;

fn jobs(jobs: Value) -> Result<Vec<howdah_jobs::Job>, Error> {
    let application = json!({"type": "php", "root": "/www", "jobs": jobs});
    let config = Config::from_value(json!({"applications": {"site": application}}))?;
    Ok(config.applications[0].jobs.clone())
}

#[test]
fn a_job_has_defaults_and_takes_all_its_keys() {
    let all = jobs(json!({
        "b": {"command": ["true"]},
        "a": {
            "command": ["php", "a b", ""], "processes": 3, "restart": "on-failure",
            "memory": "256M", "stop_signal": "QUIT", "stop_timeout": 0,
            "working_directory": "/srv",
        },
    }))
    .unwrap();
    let names: Vec<_> = all.iter().map(|job| job.name.as_str()).collect();
    assert_eq!(names, ["b", "a"], "in the order written");
    assert_eq!((all[0].processes, all[0].restart), (1, Restart::Always));
    assert_eq!((all[0].memory, all[0].stop_signal), (None, StopSignal::Term));
    assert_eq!((all[0].stop_timeout, &all[0].working_directory), (Duration::from_secs(10), &None));
    assert_eq!(all[1].command, ["php", "a b", ""]);
    assert_eq!((all[1].processes, all[1].restart), (3, Restart::OnFailure));
    assert_eq!((all[1].memory, all[1].stop_signal), (Some(256 << 20), StopSignal::Quit));
    assert_eq!(all[1].stop_timeout, Duration::ZERO);
    assert_eq!(all[1].working_directory, Some("/srv".into()));
}

#[test]
fn each_mistake_of_a_job_has_its_place() {
    for (wrong, place) in [
        (json!({"j": {}}), "/applications/site/jobs/j"),
        (json!({"j": {"command": "php a"}}), "/applications/site/jobs/j/command"),
        (json!({"j": {"command": []}}), "/applications/site/jobs/j/command"),
        (json!({"j": {"command": [""]}}), "/applications/site/jobs/j/command"),
        (json!({"j": {"command": ["a", 1]}}), "/applications/site/jobs/j/command/1"),
        (json!({"j": {"command": ["a\0"]}}), "/applications/site/jobs/j/command/0"),
        (json!({"j": {"command": ["a"], "processes": 65}}), "/applications/site/jobs/j/processes"),
        (json!({"j": {"command": ["a"], "restart": "no"}}), "/applications/site/jobs/j/restart"),
        (json!({"j": {"command": ["a"], "memory": "x"}}), "/applications/site/jobs/j/memory"),
        (json!({"j": {"command": ["a"], "user": "root"}}), "/applications/site/jobs/j"),
        (
            json!({"j": {"command": ["a"], "stop_signal": "STOP"}}),
            "/applications/site/jobs/j/stop_signal",
        ),
        (json!({"a b": {"command": ["a"]}}), "/applications/site/jobs/a b"),
        (json!([]), "/applications/site/jobs"),
    ] {
        let error = jobs(wrong.clone()).unwrap_err();
        assert_eq!(error.path(), place, "{wrong}: {error}");
    }
    let many: serde_json::Map<_, _> =
        (0..65).map(|number| (number.to_string(), json!({"command": ["a"]}))).collect();
    assert_eq!(jobs(many.into()).unwrap_err().path(), "/applications/site/jobs");
}

#[test]
fn jobs_are_no_part_of_the_processes_of_the_pages() {
    let read = |jobs: Value| read_application(json!({"type": "php", "root": "/", "jobs": jobs}));
    let one = read(json!({"j": {"command": ["a"]}}));
    assert!(one.has_same_processes(&read(json!({"j": {"command": ["b"]}}))));
    assert!(one.has_same_processes(&read(json!({}))));
}
