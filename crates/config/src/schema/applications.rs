//! PHP applications.

use super::Kind::{Array, Either, Integer, Named, Switch, Text, Texts, Word};
use super::{COUNT, Key, Kind, SECONDS, SIZE, Shape};
use crate::support::Feature;

const SETTINGS_OF_PHP: Kind = Named(&Text);
const RLIMIT: Kind = Either(&[SIZE, Word(&["unlimited"])]);
const ID_MAP: Kind = Array(&Kind::Shape("id_range"));

pub(super) const TABLE: &[Shape] = &[
    Shape {
        name: "application",
        required: &["type"],
        keys: &[
            Key(
                "type",
                Text,
                "\"php\", or a version as exact as wanted, such as \"php 8.2\"",
                None,
            ),
            Key("root", Text, "Document root", None),
            Key("script", Text, "Script that answers all requests", None),
            Key("index", Text, "Script that answers for a directory", None),
            Key(
                "targets",
                Named(&Kind::Shape("target")),
                "Several roots and scripts by name",
                None,
            ),
            Key("options", Kind::Shape("options"), "Settings of PHP", None),
            Key(
                "processes",
                Either(&[Word(&["auto"]), Integer(1, COUNT), Kind::Shape("processes")]),
                "How many processes run it",
                None,
            ),
            Key("limits", Kind::Shape("limits"), "Bounds", None),
            Key("environment", Named(&Text), "Environment variables", None),
            Key(
                "script_directories",
                Texts,
                "Directories that scripts may run from; with ! in front, must not run from",
                None,
            ),
            Key("server_software", Text, "Value of SERVER_SOFTWARE", None),
            Key("user", Text, "Whose rights it has", None),
            Key("group", Text, "Likewise", None),
            Key("working_directory", Text, "Where its processes start", None),
            Key("stdout", Text, "File for its output", None),
            Key("stderr", Text, "File for its messages", None),
            Key(
                "isolation",
                Kind::Shape("isolation"),
                "What its processes see of the machine",
                None,
            ),
            Key(
                "internal_redirect",
                Text,
                "Route for the path in X-Accel-Redirect, such as \"routes/files\"",
                None,
            ),
            Key("sendfile", Texts, "Directories of the files that X-Sendfile may name", None),
        ],
    },
    Shape {
        name: "target",
        required: &["root"],
        keys: &[
            Key("root", Text, "Document root", None),
            Key("script", Text, "Script that answers all requests", None),
            Key("index", Text, "Script that answers for a directory", None),
        ],
    },
    Shape {
        name: "options",
        required: &[],
        keys: &[
            Key("file", Text, "The php.ini", None),
            Key("admin", SETTINGS_OF_PHP, "Settings that scripts cannot change", None),
            Key("user", SETTINGS_OF_PHP, "Settings that scripts can change", None),
        ],
    },
    Shape {
        name: "processes",
        required: &[],
        keys: &[
            Key("max", Integer(1, COUNT), "At most so many", None),
            Key("start", Integer(0, COUNT), "So many are there before the first request", None),
            Key("spare", Integer(0, COUNT), "So many are kept idle", None),
            Key("max_spare", Integer(0, COUNT), "More idle ones are not kept", None),
            Key("idle_timeout", SECONDS, "Seconds after which an idle process ends", None),
            Key("spawn_rate", Integer(1, COUNT), "At most so many are started together", None),
        ],
    },
    Shape {
        name: "limits",
        required: &[],
        keys: &[
            Key("timeout", SECONDS, "Seconds that a request may run; 0 is no limit", None),
            Key(
                "requests",
                Integer(0, COUNT),
                "Requests after which a process is replaced; 0 is none",
                None,
            ),
            Key(
                "memory",
                SIZE,
                "Bytes of memory of its own above which a process is replaced; 0 is none",
                None,
            ),
            Key("rlimits", Kind::Shape("rlimits"), "Limits of the system on each process", None),
            Key("shm", SIZE, "Bytes of shared memory", Some(Feature::SharedMemoryLimit)),
            Key("queue", Integer(0, COUNT), "Requests that may wait for a process", None),
            Key("queue_timeout", SECONDS, "Seconds that a request may wait for a process", None),
            Key("slow", SECONDS, "Requests that run longer are logged with their stack", None),
            Key("slow_log", Text, "File that slow requests are logged to", None),
        ],
    },
    Shape {
        name: "rlimits",
        required: &[],
        keys: &[
            Key("as", RLIMIT, "Bytes of addresses", None),
            Key("core", RLIMIT, "Bytes of a core file", None),
            Key("data", RLIMIT, "Bytes of data", None),
            Key("fsize", RLIMIT, "Bytes of a file that is written", None),
            Key("memlock", RLIMIT, "Bytes of locked memory", None),
            Key("nofile", RLIMIT, "Open files", None),
            Key("nproc", RLIMIT, "Processes of its user", None),
            Key("stack", RLIMIT, "Bytes of stack", None),
        ],
    },
    Shape {
        name: "isolation",
        required: &[],
        keys: &[
            Key("namespaces", Named(&Switch), "Namespaces of its own", None),
            Key("uidmap", ID_MAP, "User ids inside and outside", None),
            Key("gidmap", ID_MAP, "Group ids inside and outside", None),
            Key("rootfs", Text, "Directory that becomes the root", None),
            Key("automount", Named(&Switch), "What is mounted in \"rootfs\"", None),
            Key("new_privs", Switch, "Whether files that are executed may give rights", None),
            Key("cgroup", Named(&Text), "The control group", None),
            Key(
                "sandbox",
                Either(&[Switch, Kind::Shape("sandbox")]),
                "Restrict its files to its roots and the system's; false: restrict not even signals",
                None,
            ),
        ],
    },
    Shape {
        name: "sandbox",
        required: &[],
        keys: &[
            Key("read", Texts, "Files and directories that it may read as well", None),
            Key("write", Texts, "Those that it may read and change as well", None),
            Key("execute", Texts, "Those that it may read and execute as well", None),
            Key("required", Switch, "Do not run where the kernel cannot restrict files", None),
        ],
    },
    Shape {
        name: "id_range",
        required: &["container", "host", "size"],
        keys: &[
            Key("container", Integer(0, u32::MAX as i64), "First id inside", None),
            Key("host", Integer(0, u32::MAX as i64), "First id outside", None),
            Key("size", Integer(1, u32::MAX as i64), "How many", None),
        ],
    },
    Shape {
        name: "fastcgi",
        required: &["type"],
        keys: &[
            Key("type", Word(&["fastcgi"]), "A FastCGI server runs it", None),
            Key("server", Text, "Its address, such as \"unix:/run/php/php8.2-fpm.sock\"", None),
            Key("upstream", Text, "In place of \"server\": a member of upstreams", None),
            Key("root", Text, "Document root as the server sees it", None),
            Key("script", Text, "Script that answers all requests", None),
            Key("index", Text, "Script that answers for a directory", None),
            Key(
                "targets",
                Named(&Kind::Shape("target")),
                "Several roots and scripts by name",
                None,
            ),
            Key("params", Named(&Text), "Parameters beside the usual ones", None),
            Key("limits", Kind::Shape("fastcgi_limits"), "Bounds", None),
            Key("keepalive", Integer(0, 10_000), "Idle connections kept to each server", None),
            Key("timeouts", Kind::Shape("timeouts"), "How long to wait for the server", None),
            Key("buffering", Switch, "Take answers as fast as they come", None),
            Key(
                "request_buffering",
                Switch,
                "Take bodies in full before the server hears of them",
                None,
            ),
            Key(
                "internal_redirect",
                Text,
                "Route for the path in X-Accel-Redirect, such as \"routes/files\"",
                None,
            ),
            Key("sendfile", Texts, "Directories of the files that X-Sendfile may name", None),
        ],
    },
    Shape {
        name: "fastcgi_limits",
        required: &[],
        keys: &[
            Key("connections", Integer(1, COUNT), "Requests that the server gets at once", None),
            Key("queue", Integer(0, COUNT), "Requests that may wait for a connection", None),
            Key("queue_timeout", SECONDS, "Seconds that a request may wait for it", None),
        ],
    },
];
