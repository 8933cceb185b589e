//! PHP applications.

use super::Kind::{Array, Either, Integer, Named, Switch, Text, Texts, Word};
use super::{COUNT, Key, Kind, SECONDS, SIZE, Shape};

const SETTINGS_OF_PHP: Kind = Named(&Text);
const RLIMIT: Kind = Either(&[SIZE, Word(&["unlimited"])]);
const ID_MAP: Kind = Array(&Kind::Shape("id_range"));

pub(super) const TABLE: &[Shape] = &[
    Shape {
        name: "application",
        required: &["type"],
        keys: &[
            Key("type", Text, "\"php\", or a version as exact as wanted, such as \"php 8.2\""),
            Key("root", Text, "Document root"),
            Key("script", Text, "Script that answers all requests"),
            Key("index", Text, "Script that answers for a directory"),
            Key("targets", Named(&Kind::Shape("target")), "Several roots and scripts by name"),
            Key("options", Kind::Shape("options"), "Settings of PHP"),
            Key(
                "processes",
                Either(&[Word(&["auto"]), Integer(1, COUNT), Kind::Shape("processes")]),
                "How many processes run it",
            ),
            Key("limits", Kind::Shape("limits"), "Bounds"),
            Key("environment", Named(&Text), "Environment variables"),
            Key(
                "script_directories",
                Texts,
                "Directories that scripts may run from; with ! in front, must not run from",
            ),
            Key("server_software", Text, "Value of SERVER_SOFTWARE"),
            Key("user", Text, "Whose rights it has"),
            Key("group", Text, "Likewise"),
            Key("working_directory", Text, "Where its processes start"),
            Key("stdout", Text, "File for its output"),
            Key("stderr", Text, "File for its messages"),
            Key("isolation", Kind::Shape("isolation"), "What its processes see of the machine"),
            Key(
                "internal_redirect",
                Text,
                "Route for the path in X-Accel-Redirect, such as \"routes/files\"",
            ),
            Key("sendfile", Texts, "Directories of the files that X-Sendfile may name"),
        ],
    },
    Shape {
        name: "target",
        required: &["root"],
        keys: &[
            Key("root", Text, "Document root"),
            Key("script", Text, "Script that answers all requests"),
            Key("index", Text, "Script that answers for a directory"),
        ],
    },
    Shape {
        name: "options",
        required: &[],
        keys: &[
            Key("file", Text, "The php.ini"),
            Key("admin", SETTINGS_OF_PHP, "Settings that scripts cannot change"),
            Key("user", SETTINGS_OF_PHP, "Settings that scripts can change"),
        ],
    },
    Shape {
        name: "processes",
        required: &[],
        keys: &[
            Key("max", Integer(1, COUNT), "At most so many"),
            Key("start", Integer(0, COUNT), "So many are there before the first request"),
            Key("spare", Integer(0, COUNT), "So many are kept idle"),
            Key("max_spare", Integer(0, COUNT), "More idle ones are not kept"),
            Key("idle_timeout", SECONDS, "Seconds after which an idle process ends"),
            Key("spawn_rate", Integer(1, COUNT), "At most so many are started together"),
        ],
    },
    Shape {
        name: "limits",
        required: &[],
        keys: &[
            Key("timeout", SECONDS, "Seconds that a request may run; 0 is no limit"),
            Key(
                "requests",
                Integer(0, COUNT),
                "Requests after which a process is replaced; 0 is none",
            ),
            Key(
                "memory",
                SIZE,
                "Bytes of memory of its own above which a process is replaced; 0 is none",
            ),
            Key("rlimits", Kind::Shape("rlimits"), "Limits of the system on each process"),
            Key("queue", Integer(0, COUNT), "Requests that may wait for a process"),
            Key("queue_timeout", SECONDS, "Seconds that a request may wait for a process"),
            Key("slow", SECONDS, "Requests that run longer are logged with their stack"),
            Key("slow_log", Text, "File that slow requests are logged to"),
        ],
    },
    Shape {
        name: "rlimits",
        required: &[],
        keys: &[
            Key("as", RLIMIT, "Bytes of addresses"),
            Key("core", RLIMIT, "Bytes of a core file"),
            Key("data", RLIMIT, "Bytes of data"),
            Key("fsize", RLIMIT, "Bytes of a file that is written"),
            Key("memlock", RLIMIT, "Bytes of locked memory"),
            Key("nofile", RLIMIT, "Open files"),
            Key("nproc", RLIMIT, "Processes of its user"),
            Key("stack", RLIMIT, "Bytes of stack"),
        ],
    },
    Shape {
        name: "isolation",
        required: &[],
        keys: &[
            Key("namespaces", Named(&Switch), "Namespaces of its own"),
            Key("uidmap", ID_MAP, "User ids inside and outside"),
            Key("gidmap", ID_MAP, "Group ids inside and outside"),
            Key("rootfs", Text, "Directory that becomes the root"),
            Key("automount", Named(&Switch), "What is mounted in \"rootfs\""),
            Key("new_privs", Switch, "Whether files that are executed may give rights"),
            Key("cgroup", Named(&Text), "The control group"),
            Key(
                "sandbox",
                Either(&[Switch, Kind::Shape("sandbox")]),
                "Restrict its files to its roots and the system's; false: restrict not even signals",
            ),
        ],
    },
    Shape {
        name: "sandbox",
        required: &[],
        keys: &[
            Key("read", Texts, "Files and directories that it may read as well"),
            Key("write", Texts, "Those that it may read and change as well"),
            Key("execute", Texts, "Those that it may read and execute as well"),
            Key("required", Switch, "Do not run where the kernel cannot restrict files"),
        ],
    },
    Shape {
        name: "id_range",
        required: &["container", "host", "size"],
        keys: &[
            Key("container", Integer(0, u32::MAX as i64), "First id inside"),
            Key("host", Integer(0, u32::MAX as i64), "First id outside"),
            Key("size", Integer(1, u32::MAX as i64), "How many"),
        ],
    },
    Shape {
        name: "fastcgi",
        required: &["type"],
        keys: &[
            Key("type", Word(&["fastcgi"]), "A FastCGI server runs it"),
            Key("server", Text, "Its address, such as \"unix:/run/php/php8.2-fpm.sock\""),
            Key("upstream", Text, "In place of \"server\": a member of upstreams"),
            Key("root", Text, "Document root as the server sees it"),
            Key("script", Text, "Script that answers all requests"),
            Key("index", Text, "Script that answers for a directory"),
            Key("targets", Named(&Kind::Shape("target")), "Several roots and scripts by name"),
            Key("params", Named(&Text), "Parameters beside the usual ones"),
            Key("limits", Kind::Shape("fastcgi_limits"), "Bounds"),
            Key("keepalive", Integer(0, 10_000), "Idle connections kept to each server"),
            Key("timeouts", Kind::Shape("timeouts"), "How long to wait for the server"),
            Key("buffering", Switch, "Take answers as fast as they come"),
            Key("request_buffering", Switch, "Take bodies in full before the server hears of them"),
            Key(
                "internal_redirect",
                Text,
                "Route for the path in X-Accel-Redirect, such as \"routes/files\"",
            ),
            Key("sendfile", Texts, "Directories of the files that X-Sendfile may name"),
        ],
    },
    Shape {
        name: "fastcgi_limits",
        required: &[],
        keys: &[
            Key("connections", Integer(1, COUNT), "Requests that the server gets at once"),
            Key("queue", Integer(0, COUNT), "Requests that may wait for a connection"),
            Key("queue_timeout", SECONDS, "Seconds that a request may wait for it"),
        ],
    },
];
