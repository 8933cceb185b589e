//! Servers behind this one: HTTP, FastCGI, TLS, tunnels, names.

mod answers;
mod backends;
mod boundaries;
mod dns;
mod fastcgi;
mod hostile_backends;
mod http2_backends;
mod mail;
mod proxy_protocol;
mod requests;
mod retries;
mod sessions;
mod streams;
mod tcp;
mod tunnels;
mod udp;
mod uploads;
mod upstream_tls;
mod upstreams;
