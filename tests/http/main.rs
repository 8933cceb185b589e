//! Requests of clients in HTTP/1.1, HTTP/2 and HTTP/3, and the responses.

mod action_options;
mod auth_request;
mod basic_auth;
mod error_pages;
mod geo_databases;
mod hosting;
mod http1;
mod http2;
mod http2_floods;
mod http2_strictness;
mod http3;
mod http3_limits;
mod http3_strictness;
mod lengths;
mod limits;
mod mirror;
mod own_tags;
mod refusals;
mod rewrites;
mod routing;
mod slow_clients;
mod smuggling;
mod strict_requests;
mod unanswered;
