use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use proptest::prelude::*;

use super::kernel::MAX_WATCHES;
use super::known::MAX_DEPTH;
use super::*;
use crate::{Limits, Options};

const FILE: &str = ".rules";

/// A site at `sites/current`, a link to one of two directories.
struct Site {
    directory: tempfile::TempDir,
    files: Files,
    share: Share,
    watched: Watched<Option<String>, u8>,
    now: RequestTime,
}

impl Site {
    fn new() -> Site {
        let directory = tempfile::tempdir().unwrap();
        for release in ["1", "2"] {
            fs::create_dir_all(directory.path().join("sites").join(release)).unwrap();
        }
        symlink("1", directory.path().join("sites/current")).unwrap();
        // The time stands still, so no file is looked at again without a report, and every file is
        // old.
        let wall = SystemTime::now() + Duration::from_secs(3600);
        Site {
            share: Share::new("", Options::default()),
            directory,
            files: Files::new(Limits::default()),
            watched: Watched::default(),
            now: RequestTime { monotonic: Instant::now(), wall },
        }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.directory.path().join(path)
    }

    fn root(&self) -> PathBuf {
        self.at("sites/current")
    }

    /// Reports a change, which drops everything below the root.
    fn root_is_forgotten(&self) {
        let root = self.root().canonicalize().unwrap();
        fs::rename(&root, root.with_extension("away")).unwrap();
        assert!(self.view().is_none());
        fs::rename(root.with_extension("away"), &root).unwrap();
    }

    fn view(&self) -> Option<WatchedView<'_, Option<String>, u8>> {
        let root = self.root();
        let root = root.as_os_str().as_encoded_bytes();
        self.watched.below(&self.files, &self.share, root, FILE.as_bytes(), self.now)
    }

    /// The content of a directory's file, as a request finds it; also returns whether the disk was
    /// asked.
    fn rules(&self, directory: &str) -> (Option<String>, bool) {
        let read = || fs::read_to_string(self.root().join(&directory[1..]).join(FILE)).ok();
        let Some(view) = self.view() else { return (read(), true) };
        if let Some(known) = view.value(directory.as_bytes()) {
            return (known, false);
        }
        let is_watched = view.watch_file(directory.as_bytes());
        let rules = read();
        if is_watched {
            view.store(directory.as_bytes(), rules.clone());
        }
        (rules, true)
    }

    /// Compares everything that is known with the disk. Returns the number of paths that are known.
    fn compare(&self, context: &str) -> usize {
        let mut known = 0;
        for path in paths() {
            let place = self.root().join(&path[1..]);
            let on_disk = fs::symlink_metadata(&place);
            let found =
                self.view().map_or(WatchedEntry::Unknown, |view| view.look_up(path.as_bytes()));
            known += usize::from(found != WatchedEntry::Unknown);
            match (found, on_disk) {
                (WatchedEntry::Unknown, _) => {}
                (WatchedEntry::Missing, Err(_)) => {}
                (WatchedEntry::Entry(found), Ok(disk)) => {
                    let same = (found.inode, found.mode, found.user);
                    assert_eq!(same, (disk.ino(), disk.mode(), disk.uid()), "{path} {context}");
                }
                (found, disk) => panic!("{path}: {found:?}, but {disk:?} {context}"),
            }
            if place.is_dir() {
                let directory = format!("{path}/");
                let on_disk = fs::read_to_string(place.join(FILE)).ok();
                assert_eq!(self.rules(&directory).0, on_disk, "{directory} {context}");
            }
        }
        known
    }
}

/// All paths of up to three of a few names.
fn paths() -> Vec<String> {
    let names = ["a", "b", FILE];
    let mut paths = Vec::new();
    let mut last = vec![String::new()];
    for _ in 0..3 {
        last = last
            .iter()
            .flat_map(|path| names.iter().map(move |name| format!("{path}/{name}")))
            .collect();
        paths.extend(last.iter().cloned());
    }
    paths
}

#[test]
fn rules_are_read_once_and_again_after_each_kind_of_change() {
    let site = Site::new();
    fs::create_dir_all(site.root().join("a/b")).unwrap();
    let file = site.root().join("a/b").join(FILE);
    let rules = || site.rules("/a/b/");
    let holds = |content: Option<&str>| {
        assert_eq!(rules(), (content.map(str::to_owned), true));
        assert_eq!(rules(), (content.map(str::to_owned), false), "it is known");
    };
    holds(None);
    fs::write(&file, "1").unwrap();
    holds(Some("1"));
    fs::write(&file, "2").unwrap();
    holds(Some("2"));
    fs::write(site.root().join("new"), "3").unwrap();
    fs::rename(site.root().join("new"), &file).unwrap();
    holds(Some("3"));
    // Through another name of the same file.
    fs::hard_link(&file, site.root().join("other")).unwrap();
    rules();
    fs::write(site.root().join("other"), "4").unwrap();
    holds(Some("4"));
    fs::remove_file(&file).unwrap();
    holds(None);
    fs::rename(site.root().join("a"), site.root().join("c")).unwrap();
    fs::create_dir_all(site.root().join("a/b")).unwrap();
    fs::write(&file, "5").unwrap();
    holds(Some("5"));
    // Changes beside it have no subscriber.
    fs::write(site.root().join("a/b/page"), "x").unwrap();
    fs::create_dir(site.root().join("a/d")).unwrap();
    assert!(!rules().1);
}

#[test]
fn a_root_that_is_replaced_by_its_link_or_with_a_directory_above_it_is_noticed() {
    let site = Site::new();
    fs::write(site.at("sites/1").join(FILE), "first").unwrap();
    fs::write(site.at("sites/2").join(FILE), "second").unwrap();
    let rules = || site.rules("/").0.unwrap_or_default();
    assert_eq!((rules(), rules()), ("first".to_owned(), "first".to_owned()));
    symlink("2", site.at("sites/new")).unwrap();
    fs::rename(site.at("sites/new"), site.root()).unwrap();
    assert_eq!((rules(), rules()), ("second".to_owned(), "second".to_owned()));
    fs::remove_file(site.root()).unwrap();
    assert_eq!(rules(), "");
    symlink("1", site.root()).unwrap();
    // Without a root, no fact is known, so this is seen without a report; a look at the path comes
    // later.
    assert_eq!(rules(), "first");
    let other = Site { now: RequestTime { monotonic: Instant::now(), ..site.now }, ..Site::new() };
    fs::write(other.root().join(FILE), "before").unwrap();
    assert_eq!(other.rules("/").0.as_deref(), Some("before"));
    assert!(!other.rules("/").1);
    fs::rename(other.at("sites"), other.at("moved")).unwrap();
    assert_eq!(other.rules("/").0, None);
    fs::create_dir_all(other.at("sites/current")).unwrap();
    fs::write(other.root().join(FILE), "after").unwrap();
    assert_eq!(other.rules("/").0.as_deref(), Some("after"));
}

#[test]
fn what_is_missing_is_known_until_it_comes() {
    let site = Site::new();
    let look_up = |path: &str| site.view().unwrap().look_up(path.as_bytes());
    assert_eq!(look_up("/page/2/more"), WatchedEntry::Missing);
    fs::create_dir_all(site.root().join("page/2")).unwrap();
    assert_eq!(look_up("/page/2/more"), WatchedEntry::Missing);
    fs::write(site.root().join("page/2/more"), "x").unwrap();
    assert!(matches!(look_up("/page/2/more"), WatchedEntry::Entry(_)));
    assert_eq!(look_up("/page/2/more/"), WatchedEntry::Missing, "it is no directory");
    assert_eq!(look_up("/page/2/more/below"), WatchedEntry::Missing);
    assert!(matches!(look_up("/page/2/"), WatchedEntry::Entry(_)));
    for odd in ["/a//b", "/./a", "/../a", "/a\0", &"/a".repeat(MAX_DEPTH + 1), &"/a".repeat(2000)] {
        assert_eq!(look_up(odd), WatchedEntry::Unknown, "{odd}");
    }
}

#[test]
fn links_below_the_root_and_what_is_below_them_stay_unknown() {
    let site = Site::new();
    fs::create_dir_all(site.root().join("a/b")).unwrap();
    symlink("a", site.root().join("link")).unwrap();
    let look_up = |path: &str| site.view().unwrap().look_up(path.as_bytes());
    assert!(matches!(look_up("/link"), WatchedEntry::Entry(found) if found.is_link));
    assert_eq!(look_up("/link/b"), WatchedEntry::Unknown);
    assert!(site.rules("/link/b/").1 && site.rules("/link/b/").1);
    // A file of rules that is a link may change anywhere.
    fs::write(site.root().join("rules"), "1").unwrap();
    symlink("../rules", site.root().join("a").join(FILE)).unwrap();
    for content in ["1", "2"] {
        fs::write(site.root().join("rules"), content).unwrap();
        assert_eq!(site.rules("/a/").0.as_deref(), Some(content));
    }
}

#[test]
fn more_changes_than_the_kernel_reports_are_as_good_as_a_report_of_each() {
    let site = Site::new();
    fs::write(site.root().join(FILE), "before").unwrap();
    assert_eq!(site.rules("/").0.as_deref(), Some("before"));
    assert!(!site.rules("/").1);
    let queue = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
    for _ in 0..queue.trim().parse::<usize>().unwrap().min(100_000) {
        fs::write(site.root().join("x"), "").unwrap();
        fs::remove_file(site.root().join("x")).unwrap();
    }
    fs::write(site.root().join(FILE), "after").unwrap();
    assert_eq!(site.rules("/").0.as_deref(), Some("after"));
}

#[test]
fn a_thread_has_a_limited_number_of_watches() {
    let site = Site::new();
    for number in 0..MAX_WATCHES + 10 {
        let path = site.root().join(number.to_string());
        fs::create_dir(&path).unwrap();
        assert_eq!(site.rules(&format!("/{number}/")).0, None);
        assert!(site.watched.kernel.borrow().count() <= MAX_WATCHES + 10);
    }
    fs::write(site.root().join("7").join(FILE), "x").unwrap();
    assert_eq!(site.rules("/7/").0.as_deref(), Some("x"));
}

#[test]
fn directories_that_cannot_be_watched_count_as_well_and_take_no_room_of_others() {
    let site = Site::new();
    let count = || site.watched.kernel.borrow().count();
    let other = site.at("other");
    let name = "n".repeat(240);
    fs::create_dir_all(other.join("a")).unwrap();
    let ask_other = || {
        let root = other.as_os_str().as_encoded_bytes();
        let view = site.watched.below(&site.files, &site.share, root, FILE.as_bytes(), site.now);
        view.unwrap().look_up(b"/a/x")
    };
    assert_eq!(ask_other(), WatchedEntry::Missing);
    let few = count();
    // No directory of this device is watched.
    let device = fs::metadata(site.root()).unwrap().dev();
    let mut largest = 0;
    for number in 0..MAX_WATCHES * 5 / 4 {
        let path = site.root().join(format!("{number}{name}"));
        fs::create_dir(&path).unwrap();
        let view = site.view().unwrap();
        site.watched.file_systems.borrow_mut().set(device, false);
        assert!(!view.watch_file(format!("/{number}{name}/").as_bytes()));
        site.watched.file_systems.borrow_mut().set(device, true);
        largest = largest.max(count());
        assert_eq!(ask_other(), WatchedEntry::Missing);
        assert!(site.watched.roots.borrow().all.len() == 2, "all were forgotten");
    }
    assert!((1000..=MAX_WATCHES + 10).contains(&largest), "{largest}");
    site.watched.forget_all(&mut site.watched.kernel.borrow_mut());
    assert_eq!((ask_other(), count()), (WatchedEntry::Missing, few));
}

#[test]
fn an_answer_holds_until_anything_on_its_way_changes() {
    let site = Site::new();
    fs::create_dir_all(site.root().join("a/b")).unwrap();
    let page = site.root().join("a/b/page");
    fs::write(&page, "x").unwrap();
    let answer = || {
        for directory in ["/", "/a/", "/a/b/"] {
            site.rules(directory);
        }
        let view = site.view().unwrap();
        let known = view.answer(b"/a/b/page");
        view.look_up(b"/a/b/page");
        view.store_answer(b"/a/b/page", 1, 1);
        known.is_some()
    };
    assert!(!answer() && answer());
    fs::write(site.root().join("a/other"), "x").unwrap();
    assert!(answer(), "that is not on its way");
    for directory in ["", "a", "a/b"] {
        fs::write(site.root().join(directory).join(FILE), "1").unwrap();
        assert!(!answer() && answer(), "{directory}");
    }
    fs::remove_file(&page).unwrap();
    assert!(!answer());
    fs::write(&page, "y").unwrap();
    assert!(!answer() && answer());
    for directory in ["a/b", "a"] {
        let (path, away) = (site.root().join(directory), site.root().join("away"));
        fs::rename(&path, &away).unwrap();
        fs::rename(&away, &path).unwrap();
        assert!(!answer() && answer(), "{directory}");
    }
    // A change that is taken by another request in between makes the answer one of the past.
    let view = site.view().unwrap();
    fs::write(site.root().join("a").join(FILE), "2").unwrap();
    assert!(site.view().unwrap().answer(b"/a/b/page").is_none());
    view.store_answer(b"/a/b/page", 1, 1);
    assert!(site.view().unwrap().answer(b"/a/b/page").is_none());
}

#[test]
fn answers_and_entries_take_a_limited_memory() {
    let site = Site::new();
    fs::write(site.root().join("page"), "x").unwrap();
    site.rules("/");
    let view = site.view().unwrap();
    view.store_answer(b"/page", 1, MAX_ANSWER_BYTES + 1);
    assert!(view.answer(b"/page").is_none(), "it is large");
    view.store_answer(b"/page", 1, MAX_ANSWER_BYTES);
    assert!(view.answer(b"/page").is_some());
    for number in 0..10_000 {
        let path = format!("/{number:0>200}");
        assert_eq!(view.look_up(path.as_bytes()), WatchedEntry::Missing);
        view.store_answer(path.as_bytes(), 1, if number % 2 == 0 { MAX_ANSWER_BYTES } else { 9 });
        assert!(site.watched.bytes() <= MAX_ROOT_BYTES + 1000);
    }
    site.root_is_forgotten();
    assert_eq!(site.watched.bytes(), 0);
}

#[derive(Debug, Clone)]
enum Step {
    Write(usize, u8),
    Replace(usize, u8),
    Directory(usize),
    Remove(usize),
    Rename(usize, usize),
    Link(usize, usize),
    Mode(usize, u32),
    Release(bool),
    MoveAway,
}

fn step() -> impl Strategy<Value = Step> {
    let path = || 0..paths().len();
    prop_oneof![
        (path(), any::<u8>()).prop_map(|(path, text)| Step::Write(path, text)),
        (path(), any::<u8>()).prop_map(|(path, text)| Step::Replace(path, text)),
        path().prop_map(Step::Directory),
        path().prop_map(Step::Remove),
        (path(), path()).prop_map(|(from, to)| Step::Rename(from, to)),
        (path(), path()).prop_map(|(from, to)| Step::Link(from, to)),
        (path(), prop::sample::select(vec![0o700, 0o755]))
            .prop_map(|(at, mode)| Step::Mode(at, mode)),
        any::<bool>().prop_map(Step::Release),
        Just(Step::MoveAway),
    ]
}

impl Step {
    fn take(&self, site: &Site) -> io::Result<()> {
        let at = |index: &usize| site.root().join(&paths()[*index][1..]);
        let remove = |path: &Path| {
            if fs::symlink_metadata(path)?.is_dir() {
                fs::remove_dir_all(path)
            } else {
                fs::remove_file(path)
            }
        };
        match self {
            Step::Write(path, text) => fs::write(at(path), text.to_string()),
            Step::Replace(path, text) => {
                fs::write(site.at("new"), text.to_string())?;
                fs::rename(site.at("new"), at(path))
            }
            Step::Directory(path) => fs::create_dir_all(at(path)),
            Step::Remove(path) => remove(&at(path)),
            Step::Rename(from, to) => fs::rename(at(from), at(to)),
            Step::Link(to, path) => symlink(at(to), at(path)),
            Step::Mode(path, mode) => {
                fs::set_permissions(at(path), fs::Permissions::from_mode(*mode))
            }
            Step::Release(first) => {
                symlink(if *first { "1" } else { "2" }, site.at("new"))?;
                fs::rename(site.at("new"), site.root())
            }
            Step::MoveAway => {
                fs::rename(site.at("sites"), site.at("moved"))?;
                fs::rename(site.at("moved"), site.at("sites"))
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Without any time passing, the facts are those of the disk after each change by another
    /// program.
    #[test]
    fn what_is_known_is_what_is_on_the_disk(steps in prop::collection::vec(step(), 1..40)) {
        let site = Site::new();
        fs::create_dir_all(site.root().join("a/b")).unwrap();
        prop_assert_eq!(site.compare("at first"), paths().len());
        for (number, step) in steps.iter().enumerate() {
            // Many fail, for want of a file or directory, and have no effect.
            let _ = step.take(&site);
            let known = site.compare(&format!("after step {number} of {steps:?}"));
            prop_assert!(known >= 3, "entries of the root are known");
        }
    }
}
