//! `jobs` of an application: commands that run beside its pages.

use std::time::Duration;

use howdah_jobs::cron::Cron;
use howdah_jobs::zone::Zone;
use howdah_jobs::{
    Job, MAX_JOBS, MAX_NAME_BYTES, MAX_PROCESSES, Preset, Restart, Schedule, StopSignal, Timer,
    is_name,
};

use crate::environment;
use crate::error::Error;
use crate::key::{Key, Kind, SECONDS, Shape};
use crate::node::{Node, Object};
use crate::units;

/// A member of `jobs`.
pub(crate) static JOB: Shape = Shape {
    name: "job",
    parts: &[&[
        Key::new("command", Kind::Array(&Kind::Text), "The program and its arguments")
            .details(
                "`[\"php\", \"artisan\", \"queue:work\"]`. `php` is the command-line PHP of the \
                 application's version with its `options`. No shell is involved: write \
                 `[\"sh\", \"-c\", \"…\"]` for one",
            )
            .default("required without `preset`"),
        Key::new(
            "preset",
            Kind::Word(&Preset::WORDS),
            "Command and times of a well-known application, unless the job has its own",
        )
        .default("none")
        .details(
            "`wordpress`: `php -f wp-cron.php` each minute; `nextcloud`: `php -f cron.php` each \
             five minutes. See [Jobs](../jobs.md#wordpress-and-nextcloud)",
        ),
        Key::new(
            "environment",
            Kind::Named(&Kind::Text),
            "Environment variables in addition to those of the application",
        )
        .default("none"),
        Key::new(
            "processes",
            Kind::Integer(1, MAX_PROCESSES as i64),
            "Number of processes that run the command at the same time",
        )
        .default("1"),
        Key::new(
            "restart",
            Kind::Word(&Restart::WORDS),
            "Ends after which the command starts again",
        )
        .default("\"always\"")
        .details(
            "`on-failure`: after an end with another status than 0 and after a signal. After \
                 failures it waits, from one second up to one minute",
        ),
        Key::new("memory", SIZE, "Private memory of a process above which it is replaced")
            .default("none")
            .details("With the programs that it has started. Measured every few seconds"),
        Key::new(
            "stop_signal",
            Kind::Word(&StopSignal::WORDS),
            "Signal that asks the command to end",
        )
        .default("\"TERM\""),
        Key::new(
            "stop_timeout",
            Kind::Seconds(0),
            "Seconds from that signal until the command is killed, with all that it has started",
        )
        .default("10"),
        Key::new("working_directory", Kind::Text, "Directory that the command starts in")
            .default("that of the application, else its `root`; of a site its `root`"),
        Key::new("every", DURATION, "Runs the command again and again, with this time from start to start")
            .default("none")
            .details(
                "`\"30s\"`, `\"5m\"`, `\"6h\"`, `\"1d\"`, or a number of seconds, up to 24 days. The first \
                 run is at the next full one: `\"5m\"` at :00, :05, :10, counted in UTC",
            ),
        Key::new("cron", Kind::Text, "Runs the command at these times, as cron")
            .default("none")
            .details(
                "`\"15 3 * * mon-fri\"`: minute, hour, day of the month, month, day of the week; or \
                 `@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly`",
            ),
        Key::new("time_zone", Kind::Text, "Time zone of these times, such as `\"Europe/Berlin\"`")
            .default("that of the system")
            .beside("cron"),
        Key::switch("overlap", false, "Starts a run while an earlier one goes on")
            .details("Otherwise the later one is left out. With `every` or `cron`"),
        Key::new("jitter", DURATION, "Maximum delay of a run, by chance")
            .default("0")
            .details("`\"30s\"`, or a number of seconds. With `every` or `cron`"),
        Key::new("timeout", DURATION, "Time after which a run is asked to end, and has failed")
            .default("none")
            .details("`\"1h\"`, or a number of seconds. With `every` or `cron`"),
        Key::switch("shared", true, "One server of the `cluster` runs it at each time")
            .details(
                "Otherwise each of them does. With `every` or `cron`, if there is a \
                 [cluster](settings.md#cluster). See [Several servers](../jobs.md#several-servers)",
            ),
    ]],
};

/// A number of seconds, or a text such as `"5m"`.
const DURATION: Kind = Kind::Either(&[Kind::Seconds(0), Kind::Matching("^[0-9]+ ?(s|m|h|d)$")]);

/// A number of bytes, or a text such as `"256M"`.
const SIZE: Kind = Kind::Either(&[Kind::Bytes(1), Kind::Matching("^[0-9]+[KkMmGg]?$")]);

/// Reads `jobs` of an application, in order.
pub(crate) fn read(node: &Node<'_>) -> Result<Vec<Job>, Error> {
    let mut jobs = Vec::new();
    for (name, job) in node.members()? {
        jobs.extend(node.part(read_job(name, &job))?);
    }
    if jobs.len() > MAX_JOBS {
        return Err(node.invalid(format_args!("must have at most {MAX_JOBS} members")));
    }
    Ok(jobs)
}

fn read_job(name: &str, node: &Node<'_>) -> Result<Job, Error> {
    if !is_name(name) {
        let message = format_args!(
            "must have a name of at most {MAX_NAME_BYTES} letters, digits, \".\", \"_\" and \"-\""
        );
        return Err(node.invalid(message));
    }
    let object = node.object(&JOB)?;
    let preset = object.read("preset", |node| read_word(node, &Preset::WORDS, Preset::of_word))?;
    let timer = node.part(read_timer(node, &object, preset))?.flatten();
    let command = match (object.optional("command"), preset) {
        (Some(command), _) => node.part(read_command(&command))?,
        (None, Some(preset)) => Some(preset.command().map(str::to_owned).to_vec()),
        (None, None) if object.has("preset") => None, // it is a mistake
        (None, None) => node.part(Err(object.missing(&["command"])))?,
    };
    let job = Job {
        name: name.to_owned(),
        command: command.unwrap_or_default(),
        environment: object.read("environment", environment::read_texts)?.unwrap_or_default(),
        processes: object.integer_or_default("processes")?,
        restart: object.read_or_default("restart", |node| {
            read_word(node, &Restart::WORDS, Restart::of_word)
        })?,
        memory: object.read("memory", read_size)?,
        stop_signal: object
            .read("stop_signal", |node| read_word(node, &StopSignal::WORDS, StopSignal::of_word))?
            .unwrap_or(StopSignal::Term),
        stop_timeout: object.seconds_or_default("stop_timeout")?,
        working_directory: object.file("working_directory")?,
        timer,
    };
    object.end()?;
    Ok(job)
}

/// Reads the times of a job; `None`: it runs all the time.
fn read_timer(
    node: &Node<'_>,
    object: &Object<'_>,
    preset: Option<Preset>,
) -> Result<Option<Timer>, Error> {
    let every = object.read("every", |node| read_duration(node, 1).map(Schedule::Every))?;
    let cron = object.read("cron", |node| {
        let times = Cron::parse(node.string()?).map_err(|problem| node.invalid(problem))?;
        Ok(Schedule::Cron(times))
    })?;
    let time_zone = object.read("time_zone", |node| match node.string()? {
        name if Zone::is_name(name) => Ok(name.to_owned()),
        _ => Err(node.invalid("must be the name of a time zone, such as \"Europe/Berlin\"")),
    })?;
    let jitter = object.read_or_default("jitter", |node| read_duration(node, 0))?;
    let timeout = object.read("timeout", |node| read_duration(node, 1))?;
    let (overlap, shared) = (object.switch("overlap")?, object.switch("shared")?);
    if object.has("every") && object.has("cron") {
        return Err(node.invalid("must have only one of \"every\" and \"cron\""));
    }
    let has_times = object.has("every") || object.has("cron");
    let is_timer = has_times || preset.is_some();
    let (keys, problem): (&[_], _) = if is_timer {
        (&["processes", "restart"], "must not be beside \"every\", \"cron\" or \"preset\"")
    } else {
        (&["overlap", "jitter", "timeout", "shared"], "needs \"every\" or \"cron\" beside it")
    };
    for node in keys.iter().filter_map(|key| object.optional(key)) {
        node.part::<()>(Err(node.invalid(problem)))?;
    }
    let of_preset = preset.filter(|_| !has_times).map(|preset| Schedule::Every(preset.interval()));
    let every = every.or(of_preset);
    if let (Some(Schedule::Every(interval)), Some(node)) = (&every, object.optional("jitter"))
        && jitter >= *interval
    {
        return Err(node.invalid("must be shorter than \"every\""));
    }
    let schedule = every.or(cron);
    Ok(schedule.map(|schedule| Timer { schedule, time_zone, overlap, jitter, timeout, shared }))
}

/// Reads a number of seconds, or a text with a unit, from `low` seconds on.
fn read_duration(node: &Node<'_>, low: u64) -> Result<Duration, Error> {
    let Some(text) = node.value.as_str() else { return node.seconds(low) };
    let has_unit = text.ends_with(['s', 'm', 'h', 'd']);
    let seconds = units::seconds(text).filter(|_| has_unit && !text.ends_with("ms"));
    let max = SECONDS.unsigned_abs();
    seconds.filter(|seconds| (low..=max).contains(seconds)).map(Duration::from_secs).ok_or_else(
        || {
            let days = max / 86_400;
            node.invalid(format_args!(
                "must be a time from {low} s to {days} days, such as \"30s\", \"5m\" or \"1h\""
            ))
        },
    )
}

fn read_command(node: &Node<'_>) -> Result<Vec<String>, Error> {
    if node.value.is_string() {
        let hint = "write [\"php\", \"artisan\", \"queue:work\"], or [\"sh\", \"-c\", \"…\"] for a \
                    shell";
        return Err(node.wrong_type("an array of strings").with_hint(hint));
    }
    let mut words = Vec::new();
    for word in node.elements()? {
        let text = word.string()?;
        if text.contains('\0') {
            return Err(word.invalid("must not contain a null character"));
        }
        words.push(text.to_owned());
    }
    match words.first() {
        Some(program) if !program.is_empty() => Ok(words),
        _ => Err(node.invalid("must begin with the name of a program")),
    }
}

fn read_word<T>(
    node: &Node<'_>,
    words: &[&str],
    of_word: impl Fn(&str) -> Option<T>,
) -> Result<T, Error> {
    of_word(node.string()?)
        .ok_or_else(|| node.invalid(format_args!("must be one of {}", crate::node::quoted(words))))
}

/// Reads a number of bytes, or a text with a unit.
fn read_size(node: &Node<'_>) -> Result<u64, Error> {
    match node.value.as_str() {
        Some(text) => units::bytes(text)
            .filter(|bytes| *bytes > 0)
            .ok_or_else(|| node.invalid("must be a number of bytes, such as \"256M\"")),
        None => node.size(1),
    }
}
