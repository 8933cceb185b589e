//! Memory that answers of the router take, which may have been taken over.

use std::fs;

use howdah_control::{Path, Reply};

/// Size of the longest answer in bytes.
const LENGTH: usize = 16 << 20;

/// Returns the largest memory that this process has had, in bytes.
fn peak() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
}

fn repeated(start: &str, part: &str, end: &str) -> String {
    let mut text = String::with_capacity(LENGTH);
    text.push_str(start);
    (0..(LENGTH - 300) / part.len()).for_each(|_| text.push_str(part));
    text.push_str(end);
    text
}

/// The only test of its process: it measures the memory of all threads.
#[test]
fn no_answer_takes_the_memory_of_a_tree() {
    let before = peak();
    let deep = "[".repeat(100);
    for (answer, path) in [
        (repeated("[", "{\"\":0},", "0]"), "/"),
        (repeated("[", "{\"\":0},", "0]"), "/2000000"),
        (repeated("{\"a\":[", "0,", "0]}"), "/a"),
        (repeated(&format!("{{\"a\":{deep}"), "0,", &format!("0{}}}", "]".repeat(100))), "/a"),
        (repeated("", "[", ""), "/0"),
        (repeated("\"", "\\u0001", "\""), "/"),
    ] {
        assert!(answer.len() <= LENGTH);
        let _ = Reply::part(answer.as_bytes(), &Path::read(path.as_bytes()).unwrap());
        // The answer, what is printed of it, perhaps twice while it grows, and the text of one
        // string. A tree of the first answer takes more than 1 GiB.
        let taken = peak() - before;
        assert!(taken < 12 * LENGTH, "{taken} bytes: {}…{path}", answer.get(..20).unwrap());
    }
}
