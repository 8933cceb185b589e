//! Documents, their checks, and the control API that changes them.

mod atomic_changes;
mod changes_under_load;
mod check;
mod check_certificates;
mod check_sites;
mod check_starts;
mod control_access;
mod control_commands;
mod control_limits;
mod control_sites;
mod hanging_applications;
mod hanging_files;
mod include;
mod kept_applications;
mod left_out;
mod package;
mod panels;
mod php_versions;
mod reload;
mod shared_sites;
mod site_files;
mod site_mistakes;
mod sites;
mod sites_php;
