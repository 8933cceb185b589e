//! Jobs of applications.

use howdah_jobs::cron::Cron;
use howdah_jobs::{Restart, Schedule, StopSignal, Timer};

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
fn a_timer_has_an_interval_or_the_times_of_cron() {
    let all = jobs(json!({
        "a": {"command": ["a"], "every": "5m"},
        "b": {"command": ["a"], "every": 90, "jitter": "30s", "overlap": true, "shared": false},
        "c": {"command": ["a"], "cron": "15 3 * * *", "time_zone": "Europe/Berlin", "timeout": "1h"},
        "d": {"command": ["a"]},
    }))
    .unwrap();
    let seconds = Duration::from_secs;
    let plain = Timer {
        schedule: Schedule::Every(seconds(300)),
        time_zone: None,
        overlap: false,
        jitter: Duration::ZERO,
        timeout: None,
        shared: true,
    };
    assert_eq!(all[0].timer.as_ref(), Some(&plain));
    let other = Schedule::Every(seconds(90));
    let other = Timer {
        schedule: other,
        jitter: seconds(30),
        overlap: true,
        shared: false,
        ..plain.clone()
    };
    assert_eq!(all[1].timer.as_ref(), Some(&other));
    let cron = Schedule::Cron(Cron::parse("15 3 * * *").unwrap());
    let time_zone = Some("Europe/Berlin".to_owned());
    let cron = Timer { schedule: cron, time_zone, timeout: Some(seconds(3600)), ..plain };
    assert_eq!(all[2].timer.as_ref(), Some(&cron));
    assert_eq!(all[3].timer, None);
}

#[test]
fn a_preset_has_a_command_and_times_that_the_job_may_replace() {
    let all = jobs(json!({
        "a": {"preset": "wordpress", "environment": {"HTTP_HOST": "a.example"}},
        "b": {"preset": "nextcloud", "timeout": "1h"},
        "c": {"preset": "nextcloud", "command": ["php", "occ", "x"], "cron": "@daily"},
    }))
    .unwrap();
    let interval = |job: &howdah_jobs::Job| job.timer.as_ref().unwrap().schedule.clone();
    let seconds = |seconds| Schedule::Every(Duration::from_secs(seconds));
    assert_eq!(all[0].command, ["php", "-f", "wp-cron.php"]);
    assert_eq!(all[0].environment, [("HTTP_HOST".to_owned(), "a.example".to_owned())]);
    assert_eq!((interval(&all[0]), interval(&all[1])), (seconds(60), seconds(300)));
    assert_eq!((all[2].command.len(), matches!(interval(&all[2]), Schedule::Cron(_))), (3, true));
    for (wrong, place) in [
        (json!({"preset": "drupal"}), "/preset"),
        (json!({"preset": "wordpress", "restart": "never"}), "/restart"),
        (json!({"preset": "wordpress", "environment": {"a=b": "c"}}), "/environment/a=b"),
        (json!({"preset": "wordpress", "environment": {"A": 1}}), "/environment/A"),
        (json!({"environment": {}}), ""),
    ] {
        let error = jobs(json!({"j": wrong.clone()})).unwrap_err();
        assert_eq!(error.path(), format!("/applications/site/jobs/j{place}"), "{wrong}: {error}");
    }
}

#[test]
fn each_mistake_of_a_timer_has_its_place() {
    for (keys, place, part) in [
        (json!({"every": "0s"}), "/every", "from 1 s to 24 days"),
        (json!({"every": "soon"}), "/every", "\"5m\""),
        (json!({"every": "5"}), "/every", "\"5m\""),
        (json!({"every": "25d"}), "/every", "24 days"),
        (json!({"every": 0}), "/every", "between 1"),
        (json!({"every": true}), "/every", "integer"),
        (json!({"every": "1m", "cron": "@daily"}), "", "only one of \"every\" and \"cron\""),
        (json!({"cron": "60 * * * *"}), "/cron", "the minute \"60\""),
        (json!({"cron": "* * * *"}), "/cron", "five fields"),
        (json!({"cron": 5}), "/cron", "string"),
        (json!({"cron": "@daily", "time_zone": "../x"}), "/time_zone", "Europe/Berlin"),
        (json!({"every": "1m", "time_zone": "UTC"}), "", "time_zone"),
        (json!({"overlap": false}), "/overlap", "\"cron\" beside it"),
        (json!({"jitter": "1s"}), "/jitter", "\"cron\" beside it"),
        (json!({"timeout": "1s"}), "/timeout", "\"cron\" beside it"),
        (json!({"every": "1m", "processes": 1}), "/processes", "must not be beside"),
        (json!({"every": "1m", "restart": "never"}), "/restart", "must not be beside"),
        (json!({"every": "1m", "jitter": "60s"}), "/jitter", "shorter than \"every\""),
        (json!({"every": "1m", "timeout": 0}), "/timeout", "between 1"),
    ] {
        let mut job = json!({"command": ["a"]});
        job.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
        let error = jobs(json!({"j": job})).unwrap_err();
        let expected = format!("/applications/site/jobs/j{place}");
        assert!(error.path() == expected && error.to_string().contains(part), "{keys}: {error}");
    }
}

#[test]
fn jobs_are_no_part_of_the_processes_of_the_pages() {
    let read = |jobs: Value| read_application(json!({"type": "php", "root": "/", "jobs": jobs}));
    let one = read(json!({"j": {"command": ["a"]}}));
    assert!(one.has_same_processes(&read(json!({"j": {"command": ["b"]}}))));
    assert!(one.has_same_processes(&read(json!({}))));
}
