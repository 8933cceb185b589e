//! CGI: what a script learns of a request, and what its response says.
//!
//! [`target`] selects the script for a request, [`params`] writes its parameters, [`head`] checks
//! the lines of its response. PHP's workers and FastCGI servers use the same.
#![forbid(unsafe_code)]

mod fpm_settings;
pub mod head;
pub mod params;
pub mod target;
