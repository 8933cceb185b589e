//! Changes of responses by the options of actions.

pub mod alternative;
pub mod bandwidth;
pub mod browser_caching;
pub mod charset;
pub mod cors;
pub mod header_changes;
pub mod kernel_copy;
pub mod own_tags;
pub mod page_script;
pub mod security_headers;

use howdah_http::message::Response;

/// Returns true for the refusal of a range of a file. It has the fields of the file, as nginx's:
/// the file would be sent, but for the range.
fn refuses_range(response: &Response) -> bool {
    response.status == 416 && response.file.is_some()
}
