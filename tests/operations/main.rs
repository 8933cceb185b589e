//! The server as operators see it: the command line, signals, logs, limits of open files.

mod access_log;
mod bans;
mod command;
mod descriptors;
mod environment;
mod failed_upgrades;
mod full_disks;
mod hung_router;
mod last_requests;
mod log_rotation;
mod metrics;
mod monitoring;
mod problems;
mod recovery;
mod service_manager;
mod several_directories;
mod signals;
mod site_commands;
mod site_logs;
mod stale_users;
mod stopped;
mod systemd;
mod thirty_sites;
mod top;
mod upgrade;
mod usage;
