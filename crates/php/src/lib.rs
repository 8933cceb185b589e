//! The howdah-php executable: libphp behind our own SAPI.
#![deny(unsafe_code)]
