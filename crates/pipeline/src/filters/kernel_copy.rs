//! Lets the kernel send files that many connections ask for from a copy of their content.
//!
//! The file itself may be changed in place while it is sent; the content in memory is as it was
//! when its fields were made.

use std::rc::Rc;

use howdah_http::body::Body;
use howdah_http::body::in_kernel;
use howdah_http::message::Response;

/// Adds the copy to the response of a file, with this number of open connections. Only whole
/// content in memory has one.
pub fn apply(connections: u64, response: &mut Response) {
    let (Some(file), 200, Body::Bytes(content)) = (&response.file, response.status, &response.body)
    else {
        return;
    };
    if in_kernel::pays(content.len(), connections) {
        let copy = Box::new(Rc::clone(file));
        response.extras.get_or_insert_default().in_kernel = Some(copy);
    }
}
