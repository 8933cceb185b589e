//! The limits of the router's memory for sites and clients: each kind is driven far beyond its
//! limit, and the memory of the router grows by little more than the limit. "Memory of the router"
//! in docs/security.md has the table.

use std::fs;

use harness::http2::{Http2, frame, kind, request};
use harness::{Server, Site, free_address, processes};
use serde_json::json;

pub const MIB: u64 = 1 << 20;

/// Growth of the memory of a router.
pub struct Growth {
    router: u32,
    before: u64,
    resident: u64,
}

impl Growth {
    /// Starts the measurement.
    pub fn of(server: &Server) -> Growth {
        let router = server.router();
        Growth {
            router,
            before: processes::private_memory(router),
            resident: processes::resident_memory(router),
        }
    }

    /// Returns the growth until now, in bytes.
    pub fn bytes(&self) -> u64 {
        processes::private_memory(self.router).saturating_sub(self.before)
    }

    /// Asserts that the memory has grown by little more than a limit in bytes: by half of it, since
    /// the limit counts some memory approximately, and by the memory that the allocator keeps.
    #[track_caller]
    pub fn assert_within(&self, limit: u64) {
        let grown = self.bytes();
        println!("grown by {} MiB, the limit is {} MiB", grown / MIB, limit / MIB);
        assert!(grown < limit * 3 / 2 + 16 * MIB);
    }

    /// Asserts the same of the highest memory since the start of the router, for memory that is
    /// kept for a moment.
    #[track_caller]
    pub fn assert_peak_within(&self, limit: u64) {
        let grown = processes::peak_memory(self.router).saturating_sub(self.resident);
        // With pages of the program that were not in memory before.
        println!("grown by {} MiB, the limit is {} MiB", grown / MIB, limit / MIB);
        assert!(grown < limit * 3 / 2 + 64 * MIB);
    }
}

/// A site with `.htaccess` files, and beside it another one at `/other/`, served by one thread.
pub fn serve(site: Site) -> Server {
    let root = site.root().display().to_string();
    site.file("other/a.txt", "other")
        .with(json!({ "settings": { "listen_threads": 1 } }))
        .with(json!({
            "routes": [
                { "match": { "uri": "/other/*" }, "action": { "share": format!("{root}$uri") } },
                { "action": { "pass": "applications/site" } },
            ],
            "applications": { "site": { "htaccess": true } },
        }))
        .serve()
}

#[test]
fn compiled_directives_of_many_directories_stay_within_their_memory() {
    let site = Site::new();
    let rules: String = (0..4000)
        .map(|n| format!("<If \"%{{REQUEST_URI}} =~ /x{n}(a|b)*/\">\nHeader set X 1\n</If>\n"))
        .collect();
    fs::write(site.root().join("rules"), rules).unwrap();
    for number in 0..30 {
        let directory = site.root().join(format!("d{number}"));
        fs::create_dir(&directory).unwrap();
        fs::hard_link(site.root().join("rules"), directory.join(".htaccess")).unwrap();
        fs::write(directory.join("a.txt"), "a").unwrap();
    }
    let server = serve(site);
    let growth = Growth::of(&server);
    for number in 0..30 {
        // Subjects of several lengths need further variants of each pattern.
        for query in ["", &"q".repeat(300)] {
            let response = server.get(&format!("/d{number}/a.txt?{query}"));
            assert!(matches!(response.status, 200 | 503), "{}", response.status);
        }
        assert_eq!(server.get("/other/a.txt").text(), "other");
        // And a file that is being compiled.
        growth.assert_within((96 + 48) * MIB);
    }
    let response = server.get("/d7/a.txt");
    assert_eq!(response.status, 200, "{}", server.log());
}

#[test]
fn compiled_directives_of_many_sites_stay_within_the_memory_of_all() {
    const SITES: usize = 14;
    let (site, address) = (Site::new(), free_address().to_string());
    let rules: String = (0..4000)
        .map(|n| format!("<If \"%{{REQUEST_URI}} =~ /x{n}(a|b)*/\">\nHeader set X 1\n</If>\n"))
        .collect();
    fs::write(site.root().join("rules"), rules).unwrap();
    let (mut routes, mut applications) = (Vec::new(), json!({}));
    for name in (0..SITES).map(|number| format!("s{number}")) {
        let root = site.root().join(&name);
        for number in 0..3 {
            let directory = root.join(format!("d{number}"));
            fs::create_dir_all(&directory).unwrap();
            fs::hard_link(site.root().join("rules"), directory.join(".htaccess")).unwrap();
            fs::write(directory.join("a.txt"), "a").unwrap();
        }
        let pass = format!("applications/{name}");
        routes.push(json!({ "match": { "host": name }, "action": { "pass": pass } }));
        applications[&name] =
            json!({ "type": "php", "root": root, "processes": 1, "htaccess": true });
    }
    let server = site
        .with(json!({ "routes": routes, "applications": applications }))
        .with(json!({ "settings": { "listen_threads": 1 } }))
        .serve_at(&address);
    let growth = Growth::of(&server);
    for number in 0..SITES * 3 {
        for query in ["", &"q".repeat(300)] {
            let response = server.send(format!(
                "GET /d{}/a.txt?{query} HTTP/1.1\r\nHost: s{}\r\nConnection: close\r\n\r\n",
                number / SITES,
                number % SITES
            ));
            assert!(matches!(response.status, 200 | 503), "{}", response.status);
        }
        // Without a limit of all, each site keeps 48 MiB. And a file that is being compiled.
        growth.assert_within((224 + 48) * MIB);
    }
}

#[test]
fn heads_of_responses_that_are_large_are_not_kept() {
    let site = Site::new();
    let rules: String =
        (0..4).map(|n| format!("Header set X-H{n} \"{}\"\n", "v".repeat(8000))).collect();
    fs::write(site.root().join(".htaccess"), rules).unwrap();
    for number in 0..150 {
        fs::write(site.root().join(format!("f{number}.txt")), "x").unwrap();
    }
    let server = serve(site);
    let growth = Growth::of(&server);
    for number in 0..150 {
        for _ in 0..2 {
            assert_eq!(server.get(&format!("/f{number}.txt")).status, 200);
        }
    }
    assert_eq!(server.get("/other/a.txt").text(), "other");
    growth.assert_within(2 * MIB);
}

#[test]
fn what_responses_state_about_queries_stays_within_the_memory_of_the_cache() {
    let code = "header('Cache-Control: max-age=60'); $o = []; \
                for ($i = 0; $i < 100; $i++) $o[] = '\"' . str_pad((string) $i, 290, 'v') . '\"'; \
                header('No-Vary-Search: params=(' . implode(' ', $o) . ')'); echo 'x';";
    let server = Site::script("index.php", code)
        .with(json!({
            "routes": [{ "action": { "pass": "applications/site", "cache": { "memory": MIB } } }],
            "applications": { "site": { "script": "index.php" } },
        }))
        .serve();
    server.get("/first");
    let growth = Growth::of(&server);
    for number in 0..1500 {
        assert_eq!(server.get(&format!("/p{number}")).status, 200);
    }
    // 1500 of them take 50 MiB.
    growth.assert_within(MIB);
}

#[test]
fn encoders_of_slow_streams_have_a_limit_for_each_client() {
    let site = Site::new();
    // Not compressible by much, so that no encoder ends before the client reads.
    let mut state = 1_u64;
    let words = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        format!("{:x} ", state >> 20)
    });
    fs::write(site.root().join("a.txt"), words.take(200_000).collect::<String>()).unwrap();
    let address = free_address().to_string();
    let server = site
        .with(json!({
            "settings": { "http": { "compression": { "compressors": [{ "encoding": "br" }] } } },
            "listeners": { &address: { "http2": true } },
        }))
        .serve_at(&address);
    let growth = Growth::of(&server);
    let head = request("GET", "/a.txt", &[("accept-encoding", "br")]);
    const END: u8 = 5; // END_STREAM, END_HEADERS
    // No windows: nothing is read.
    let mut clients: Vec<Http2> =
        (0..4).map(|_| Http2::connect(server.address, &[(4, 0)])).collect();
    let mut fields = Vec::new();
    for client in &mut clients {
        for number in 0..100 {
            client.send(frame(kind::HEADERS, END, 2 * number + 1, &head));
        }
        let mut heads = 0;
        while heads < 100 {
            let frame = client.frame().expect("the server answers");
            if frame.kind == kind::HEADERS {
                heads += 1;
                fields.push(frame.payload);
            }
        }
    }
    assert_eq!(fields.len(), 400);
    // Encoders of Brotli take 3 MiB each, and the client has 48.
    growth.assert_within(48 * MIB);
    assert_eq!(server.get("/a.txt").status, 200);
}
