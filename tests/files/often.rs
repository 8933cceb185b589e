//! Files that many connections ask for often, which the kernel sends from a copy of their content.

use std::fs::{self, File};
use std::time::{Duration, SystemTime};

use harness::{Server, Site, eventually};

const LENGTH: usize = 100_000;

/// Writes a file that was modified a while ago: newer ones are not kept in memory.
fn write(site_root: &std::path::Path, content: &str) {
    let new = site_root.join("new");
    fs::write(&new, content).unwrap();
    let hour = Duration::from_secs(3600);
    File::options().write(true).open(&new).unwrap().set_modified(SystemTime::now() - hour).unwrap();
    fs::rename(new, site_root.join("page.txt")).unwrap();
}

fn copies(server: &Server) -> usize {
    let links = fs::read_dir(format!("/proc/{}/fd", server.router())).unwrap();
    let links = links.filter_map(|link| fs::read_link(link.unwrap().path()).ok());
    links.filter(|link| link.to_string_lossy().contains("memfd:howdah-request")).count()
}

#[test]
fn a_file_that_is_sent_often_is_the_same_until_it_changes() {
    let text: String = (0..LENGTH / 8).map(|number| format!("{number:07}\n")).collect();
    let site = Site::new();
    let root = site.root();
    write(&root, &text);
    let server = site.serve();
    let before = copies(&server);
    let mut clients: Vec<_> = (0..64).map(|_| server.connect()).collect();
    // Files that have changed a moment ago are not kept in memory.
    eventually("the file is copied", || {
        for client in &mut clients {
            let response = client.get("/page.txt");
            assert!(response.status == 200 && response.text() == text);
        }
        (copies(&server) > before).then_some(())
    });
    let client = &mut clients[0];
    client.send("GET /page.txt HTTP/1.1\r\nHost: a\r\nRange: bytes=9-80008\r\n\r\n");
    assert!(client.response().text() == text[9..80_009]);
    // A client that has asked for several gets them in order.
    client.send("GET /page.txt HTTP/1.1\r\nHost: a\r\n\r\n".repeat(5));
    (0..5).for_each(|_| assert!(client.response().text() == text));
    let other = text.replace('0', "o");
    write(&root, &other);
    for client in &mut clients {
        eventually("the new file is sent", || {
            (client.get("/page.txt").text() == other).then_some(())
        });
    }
}
