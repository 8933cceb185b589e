//! Objects of `applications`.

use super::routing::LOGS;
use super::shape::Kind::{Array, Either, Integer, Named, Switch, Text, Texts, Word};
use super::shape::{COUNT, Key, Kind, SECONDS, SIZE, Shape};

const SETTINGS_OF_PHP: Kind = Named(&Text);
const RLIMIT: Kind = Either(&[SIZE, Word(&["unlimited"])]);
const ID_MAP: Kind = Array(&Kind::Shape("id_range"));

pub(super) const TABLE: &[Shape] = &[
    Shape {
        name: "application",
        required: &["type"],
        keys: &[
            Key("type", Text, "\"php\", or with a version, such as \"php 8.2\""),
            Key("root", Text, "Document root"),
            Key("script", Text, "Script that handles all requests"),
            Key("index", Text, "Index script of directories"),
            Key("prefix", Text, "Part of the path that is not looked up below the root"),
            Key("targets", Named(&Kind::Shape("target")), "Several roots and scripts by name"),
            Key(
                "worker",
                Either(&[Switch, Kind::Shape("worker")]),
                "Script that stays in memory and handles one request after the other",
            ),
            Key(
                "htaccess",
                Either(&[Switch, Kind::Shape("htaccess")]),
                "Apache's .htaccess files below the root are read",
            ),
            Key("options", Kind::Shape("options"), "Settings of PHP"),
            Key(
                "processes",
                Either(&[Word(&["auto"]), Integer(1, COUNT), Kind::Shape("processes")]),
                "Number of processes",
            ),
            Key("limits", Kind::Shape("limits"), "Limits"),
            Key("environment", Named(&Text), "Environment variables"),
            Key(
                "script_directories",
                Texts,
                "Directories that scripts may run from; with a leading !, must not run from",
            ),
            Key(
                "limit_extensions",
                Texts,
                "Endings of the names of files that run as scripts, [\".php\"] by default",
            ),
            Key("server_software", Text, "Value of SERVER_SOFTWARE"),
            Key("user", Text, "User that its processes run as"),
            Key("group", Text, "Group that its processes run as"),
            Key("working_directory", Text, "Working directory of its processes"),
            Key("priority", Integer(-20, 19), "Nice value of its processes"),
            Key("umask", Text, "Permissions that new files do not get, in octal digits"),
            Key("access_log", LOGS, "Access logs of the requests that it handles"),
            Key("stdout", Text, "File for its standard output"),
            Key("stderr", Text, "File for its standard error"),
            Key("isolation", Kind::Shape("isolation"), "Isolation of its processes"),
            Key("smtp", Kind::Shape("smtp"), "Mail server that takes its messages"),
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
            Key("script", Text, "Script that handles all requests"),
            Key("index", Text, "Index script of directories"),
            Key("prefix", Text, "Part of the path that is not looked up below the root"),
        ],
    },
    Shape {
        name: "htaccess",
        required: &[],
        keys: &[
            Key(
                "allow",
                Texts,
                "Classes of directives that are allowed, as Apache's AllowOverride",
            ),
            Key("file", Text, "Name of the files"),
            Key("index", Texts, "Index files of directories, as Apache's DirectoryIndex"),
            Key("options", Texts, "Features of directories, as Apache's Options"),
            Key("scripts", Text, "Regular expression of the names of scripts"),
            Key(
                "closed",
                Texts,
                "Patterns of paths below the root: files are neither sent nor run",
            ),
            Key("without_scripts", Texts, "Patterns of paths below the root: files are not run"),
        ],
    },
    Shape {
        name: "worker",
        required: &[],
        keys: &[
            Key(
                "script",
                Text,
                "Script that stays in memory, relative to the root; the application's by default",
            ),
            Key("warm_up", Text, "Path that is requested before the first process starts"),
            Key(
                "requests",
                Integer(0, COUNT),
                "Number of requests after which a process is replaced; 0 is no limit",
            ),
            Key(
                "fallback",
                Word(&["classic"]),
                "Runs a script for each request if the worker script does not work",
            ),
            Key(
                "watch",
                Texts,
                "Files and directories whose changes restart the application, for development",
            ),
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
            Key("max", Integer(1, COUNT), "Maximum number of processes"),
            Key("start", Integer(0, COUNT), "Number of processes started before the first request"),
            Key("spare", Integer(0, COUNT), "Number of idle processes that are kept ready"),
            Key("max_spare", Integer(0, COUNT), "Maximum number of idle processes"),
            Key("idle_timeout", SECONDS, "Seconds after which an idle process ends"),
            Key(
                "spawn_rate",
                Integer(1, COUNT),
                "Maximum number of processes that are started together",
            ),
            Key(
                "prototype_timeout",
                SECONDS,
                "Seconds without processes after which PHP is unloaded",
            ),
        ],
    },
    Shape {
        name: "limits",
        required: &[],
        keys: &[
            Key("timeout", SECONDS, "Maximum seconds that a request may run; 0 is no limit"),
            Key(
                "requests",
                Integer(0, COUNT),
                "Number of requests after which a process is replaced; 0 is no limit",
            ),
            Key(
                "memory",
                SIZE,
                "Private memory in bytes above which a process is replaced; 0 is no limit",
            ),
            Key("rlimits", Kind::Shape("rlimits"), "Resource limits of each process"),
            Key("queue", Integer(0, COUNT), "Maximum number of requests that wait for a process"),
            Key("queue_timeout", SECONDS, "Maximum seconds that a request waits for a process"),
            Key(
                "patience",
                SECONDS,
                "Seconds that clients wait; requests that wait longer in an overloaded queue get 503",
            ),
            Key(
                "fair",
                Either(&[Switch, Text]),
                "Whether clients take turns in the queue, or the text that takes turns",
            ),
            Key(
                "slow",
                SECONDS,
                "Seconds after which a request is logged with its stack (5); 0 for never",
            ),
            Key("slow_log", Text, "File that slow requests are logged to"),
        ],
    },
    Shape {
        name: "rlimits",
        required: &[],
        keys: &[
            Key("as", RLIMIT, "Maximum size of the address space in bytes"),
            Key("core", RLIMIT, "Maximum size of a core file in bytes"),
            Key("data", RLIMIT, "Maximum size of the data segment in bytes"),
            Key("fsize", RLIMIT, "Maximum size of written files in bytes"),
            Key("memlock", RLIMIT, "Maximum size of locked memory in bytes"),
            Key("nofile", RLIMIT, "Maximum number of open files"),
            Key("nproc", RLIMIT, "Maximum number of processes of its user"),
            Key("stack", RLIMIT, "Maximum size of the stack in bytes"),
        ],
    },
    Shape {
        name: "isolation",
        required: &[],
        keys: &[
            Key("namespaces", Named(&Switch), "Namespaces to create"),
            Key("uidmap", ID_MAP, "Mapping of user ids"),
            Key("gidmap", ID_MAP, "Mapping of group ids"),
            Key("rootfs", Text, "Root directory of its processes"),
            Key("automount", Named(&Switch), "File systems to mount in \"rootfs\""),
            Key(
                "new_privs",
                Switch,
                "Allow to gain privileges by executing files, such as setuid programs",
            ),
            Key("cgroup", Kind::Shape("cgroup"), "The control group"),
            Key(
                "sandbox",
                Either(&[Switch, Kind::Shape("sandbox")]),
                "true restricts files to its roots and the system's; false restricts nothing",
            ),
            Key("own_start", Switch, "Start PHP for this application alone"),
        ],
    },
    Shape {
        name: "cgroup",
        required: &["path"],
        keys: &[
            Key("path", Text, "Path, below the server's own group unless it begins with a slash"),
            Key("cpu_weight", Integer(1, 10_000), "Share of processor time beside other groups"),
            Key("io_weight", Integer(1, 10_000), "Share of disk operations beside other groups"),
        ],
    },
    Shape {
        name: "sandbox",
        required: &[],
        keys: &[
            Key("read", Texts, "Additional files and directories that it may read"),
            Key("write", Texts, "Additional files and directories that it may read and change"),
            Key("execute", Texts, "Additional files and directories that it may read and execute"),
            Key("required", Switch, "Refuse to run on kernels that cannot restrict files"),
        ],
    },
    Shape {
        name: "id_range",
        required: &["container", "host", "size"],
        keys: &[
            Key("container", Integer(0, u32::MAX as i64), "First id inside the namespace"),
            Key("host", Integer(0, u32::MAX as i64), "First id outside the namespace"),
            Key("size", Integer(1, u32::MAX as i64), "Number of ids"),
        ],
    },
    Shape {
        name: "fastcgi",
        required: &["type"],
        keys: &[
            Key("type", Word(&["fastcgi"]), "The application runs on a FastCGI server"),
            Key("server", Text, "Address of the server, such as \"unix:/run/php/php8.2-fpm.sock\""),
            Key("upstream", Text, "Name of an upstream, instead of \"server\""),
            Key("root", Text, "Document root on the server"),
            Key("script", Text, "Script that handles all requests"),
            Key("index", Text, "Index script of directories"),
            Key("prefix", Text, "Part of the path that is not looked up below the root"),
            Key("targets", Named(&Kind::Shape("target")), "Several roots and scripts by name"),
            Key("params", Named(&Text), "Additional FastCGI parameters"),
            Key("limits", Kind::Shape("fastcgi_limits"), "Limits"),
            Key(
                "keepalive",
                Integer(0, 10_000),
                "Maximum number of idle connections to each server",
            ),
            Key("timeouts", Kind::Shape("timeouts"), "Timeouts"),
            Key("buffering", Switch, "Read responses as fast as the server sends them"),
            Key(
                "request_buffering",
                Switch,
                "Receive all of a request body before the request is sent on",
            ),
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
            Key("connections", Integer(1, COUNT), "Maximum number of concurrent requests"),
            Key(
                "queue",
                Integer(0, COUNT),
                "Maximum number of requests that wait for a connection",
            ),
            Key("queue_timeout", SECONDS, "Maximum seconds that a request waits for a connection"),
        ],
    },
];
