//! CGI: the parameters that a script gets for a request, and the head of its response.
//!
//! [`target`] selects the script for a request, [`params`] writes its parameters, [`head`] checks
//! the lines of its response. PHP's workers and FastCGI servers use the same.
#![forbid(unsafe_code)]

pub mod head;
pub mod params;
pub mod target;
