//! Applications: their workers, their limits, and the effects of their scripts on themselves and on
//! the server.

mod crash_loops;
mod debuggers;
mod exhaustion;
mod fairness;
mod faults;
mod forgery;
mod forms;
mod jobs;
mod limit_extensions;
mod log_records;
mod mail;
mod mail_process;
mod mail_tls;
mod memory;
mod offspring;
mod other_sites;
mod pools;
mod prefix;
mod privileges;
mod process_settings;
mod profile;
mod queue;
mod releases;
mod slow_log;
mod status;
mod timeouts;
mod web_server_load;
mod web_server_sockets;
mod web_servers;
mod worker_check;
mod worker_mode;
mod worker_mode_failures;
mod zygotes;
