//! Safe Linux calls: processes, descriptors, shared memory, futex, credentials.
#![deny(unsafe_code)]
