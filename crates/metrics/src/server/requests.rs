//! Metrics of requests.

use crate::counts::{CLASSES, Counts, METHODS};
use crate::exposition::{Kind, Writer};
use crate::finished::Parts;
use crate::totals::{OTHER, Totals};

/// Writes the metrics.
pub(super) fn write(totals: &Totals, out: &mut Writer) {
    out.begin(
        Kind::Counter,
        "howdah_http_requests",
        "Requests that were answered or cut short, by class of the status",
    );
    for ((site, listener), counts) in &totals.requests {
        for (method, of_method) in METHODS.into_iter().chain([OTHER]).zip(counts.requests) {
            for (class, count) in CLASSES.into_iter().zip(of_method).filter(|(_, count)| *count > 0)
            {
                let (listener, site) = (("listener", &**listener), ("site", &**site));
                out.number(&[site, listener, ("method", method), ("code", class)], count);
            }
        }
    }
    sums(
        totals,
        "howdah_http_request_bytes",
        "Bytes of requests: heads and bodies",
        |counts| counts.received,
        out,
    );
    sums(
        totals,
        "howdah_http_response_bytes",
        "Bytes of responses: heads and bodies",
        |counts| counts.sent,
        out,
    );
    let sites = totals.by_site();
    out.begin(
        Kind::Counter,
        "howdah_http_responses_cut",
        "Responses that were not sent to their end, by the side that ended them",
    );
    for (site, counts) in &sites {
        let sides = [("client", counts.cut_by_client), ("server", counts.cut_by_server)];
        for (side, count) in sides.into_iter().filter(|(_, count)| *count > 0) {
            out.number(&[("site", site), ("by", side)], count);
        }
    }
    out.begin(
        Kind::Histogram,
        "howdah_http_request_duration_seconds",
        "Time from the first byte of a request to the last one of its response",
    );
    sites.iter().for_each(|(site, counts)| out.histogram(&[("site", site)], &counts.whole));
    out.begin(
        Kind::Histogram,
        "howdah_http_request_part_duration_seconds",
        "Parts of this time: waiting for a process, start of PHP, run time of the script, time \
         with upstreams, and from the head of their responses to the last byte",
    );
    let names = Parts::default().named().map(|(name, _)| name);
    for (site, counts) in &sites {
        for (part, histogram) in names.into_iter().zip(&counts.parts) {
            if histogram.count() > 0 {
                out.histogram(&[("site", site), ("part", part)], histogram);
            }
        }
    }
}

fn sums(
    totals: &Totals,
    name: &'static str,
    help: &'static str,
    sum: impl Fn(&Counts) -> u64,
    out: &mut Writer,
) {
    out.begin(Kind::Counter, name, help);
    for ((site, listener), counts) in &totals.requests {
        out.number(&[("site", site), ("listener", listener)], sum(counts));
    }
}
