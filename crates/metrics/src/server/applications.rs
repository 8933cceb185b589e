//! Metrics of PHP applications.

use howdah_questions::{OpcacheStatus, PhpStatus, Status};

use crate::exposition::{Kind, Writer};
use crate::totals::Totals;

/// Writes the metrics.
pub(super) fn write(status: &Status, totals: &Totals, out: &mut Writer) {
    out.begin(Kind::Gauge, "howdah_php_up", "0 if the application cannot run, else 1");
    for (name, application) in &status.applications {
        out.number(&[("application", name)], application.problem.is_none().into());
    }
    out.begin(Kind::Gauge, "howdah_php_processes", "Processes of the application");
    for (name, application) in &status.applications {
        let processes = &application.processes;
        let busy = processes.running.saturating_sub(processes.idle);
        for (state, count) in
            [("busy", busy), ("idle", processes.idle), ("starting", processes.starting)]
        {
            out.number(&[("application", name), ("state", state)], count);
        }
    }
    out.begin(Kind::Gauge, "howdah_php_waiting_requests", "Requests that wait for a process");
    for (name, application) in &status.applications {
        let busy = application.processes.running.saturating_sub(application.processes.idle);
        let waiting = application.requests.active.saturating_sub(busy);
        out.number(&[("application", name)], waiting);
    }
    let mut counter = |name, help, count: &dyn Fn(&PhpStatus) -> u64| {
        out.begin(Kind::Counter, name, help);
        each(status, |name, php| out.number(&[("application", name)], count(php)));
    };
    counter("howdah_php_requests", "Requests that the application was given", &|php| {
        php.activity.accepted
    });
    counter(
        "howdah_php_slow_requests",
        "Scripts that ran longer than the limit for slow ones",
        &|php| php.activity.slow,
    );
    counter("howdah_php_timed_out_requests", "Scripts that were ended by the time limit", &|php| {
        php.activity.timed_out
    });
    counter("howdah_php_given_up_requests", "Requests that an overloaded queue refused", &|php| {
        php.given_up
    });
    counter(
        "howdah_php_processes_exhausted",
        "Times that requests began to wait while the number of processes was at its maximum",
        &|php| php.activity.exhausted,
    );
    counter(
        "howdah_php_log_lines_dropped",
        "Lines of scripts, and about their requests, that were left out of the log",
        &|php| php.activity.dropped_lines,
    );
    counter(
        "howdah_php_log_bytes",
        "Bytes that scripts have written for the log, those included that were left out",
        &|php| php.activity.log_bytes,
    );
    out.begin(
        Kind::Gauge,
        "howdah_php_longest_run_seconds",
        "Run time of the script that has run longest of those that run",
    );
    each(status, |name, php| out.micros(&[("application", name)], php.activity.longest_us));
    out.begin(
        Kind::Gauge,
        "howdah_php_programs",
        "Programs that scripts have started and that still run",
    );
    each(status, |name, php| out.number(&[("application", name)], php.processes.programs));
    out.begin(
        Kind::Gauge,
        "howdah_php_private_memory_bytes",
        "Private resident memory of all processes of the application, with programs of scripts",
    );
    each(status, |name, php| out.number(&[("application", name)], php.processes.private));
    out.begin(
        Kind::Counter,
        "howdah_php_process_cpu_seconds",
        "Processor time of all processes of the application, with programs of scripts, also during \
         requests",
    );
    each(status, |name, php| out.micros(&[("application", name)], php.processes.cpu_us));
    out.begin(
        Kind::Counter,
        "howdah_php_cpu_seconds",
        "Processor time of finished requests, user and system",
    );
    each(status, |name, php| out.micros(&[("application", name)], php.activity.cpu_us));
    out.begin(Kind::Counter, "howdah_php_run_seconds", "Run time of finished scripts");
    totals.run_us.iter().for_each(|(site, time)| out.micros(&[("site", site)], *time));
    out.begin(
        Kind::Counter,
        "howdah_php_process_ends",
        "Processes that have ended after a request or with an error, by the reason",
    );
    each(status, |name, php| {
        for (reason, count) in &php.activity.ends {
            out.number(&[("application", name), ("reason", reason)], *count);
        }
    });
    out.begin(
        Kind::Counter,
        "howdah_php_restarts",
        "Times that all processes were replaced: by a command or a change of files (asked), or \
         because the one that forks them has ended (failed)",
    );
    each(status, |name, php| {
        for (reason, count) in &php.activity.restarts {
            out.number(&[("application", name), ("reason", reason)], *count);
        }
    });
    out.begin(
        Kind::Gauge,
        "howdah_php_memory_bytes",
        "Memory of the application; shared pages count in proportion",
    );
    each(status, |name, php| {
        let memory = &php.memory;
        out.number(&[("application", name), ("part", "prototype")], memory.prototype);
        out.number(&[("application", name), ("part", "processes")], memory.processes);
    });
    out.begin(
        Kind::Gauge,
        "howdah_php_script_memory_peak_bytes",
        "Maximum memory of a script since the start of the counters",
    );
    each(status, |name, php| out.number(&[("application", name)], php.activity.memory_peak));
    opcache(status, out);
}

fn opcache(status: &Status, out: &mut Writer) {
    out.begin(Kind::Gauge, "howdah_php_opcache_memory_bytes", "Memory of OPcache");
    each(status, |name, php| {
        let Some(OpcacheStatus { memory, .. }) = &php.opcache else { return };
        for (state, bytes) in
            [("used", memory.used), ("free", memory.free), ("wasted", memory.wasted)]
        {
            out.number(&[("application", name), ("state", state)], bytes);
        }
    });
    let mut one = |kind, family, help, number: &dyn Fn(&OpcacheStatus) -> u64| {
        out.begin(kind, family, help);
        each(status, |name, php| {
            if let Some(opcache) = &php.opcache {
                out.number(&[("application", name)], number(opcache));
            }
        });
    };
    one(Kind::Gauge, "howdah_php_opcache_enabled", "1 if OPcache keeps scripts", &|opcache| {
        opcache.enabled.into()
    });
    one(Kind::Gauge, "howdah_php_opcache_scripts", "Scripts in OPcache", &|opcache| {
        opcache.scripts
    });
    one(Kind::Counter, "howdah_php_opcache_hits", "Scripts found in OPcache", &|opcache| {
        opcache.hits
    });
    one(Kind::Counter, "howdah_php_opcache_misses", "Scripts not found in OPcache", &|opcache| {
        opcache.misses
    });
    one(
        Kind::Counter,
        "howdah_php_opcache_restarts",
        "Times that OPcache was emptied",
        &|opcache| opcache.restarts,
    );
}

fn each(status: &Status, mut write: impl FnMut(&str, &PhpStatus)) {
    status.php.iter().for_each(|(name, php)| write(name, php));
}
