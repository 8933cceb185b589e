//! Looks at the applications of the running document: whether those without a process could start,
//! and whether those that run have their document roots.
//!
//! A process of [`file_helpers`](crate::file_helpers) carries out the checks, as a directory may be
//! on a network drive that does not answer. Its application is left out of the next looks for a
//! while, so that the others are looked at.

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use howdah_wire::messages::{ApplicationSpec, FromSupervisor, MAX_MESSAGE, Problem};

use crate::file_helper::file_progress;
use crate::memory::read_memory_file;
use crate::options::Options;
use crate::prototype::{check_roots, preflight};
use crate::{resources, start_files};

/// Time after which a directory that is missing is looked at again: a deployment may be exchanging
/// it.
const SECOND_LOOK: Duration = Duration::from_millis(500);

/// Time for which an application is left out whose directory has not answered.
const HUNG_PAUSE: Duration = Duration::from_secs(5);

/// Maximum size of all problems together in bytes, with those of the message to the router in mind.
const MAX_PROBLEM_BYTES: usize = 64 << 10;

/// Key of a notice that is no problem: the file of an application that starts has changed.
pub(crate) const CHANGED: &str = "changed";

/// An application to look at.
pub(crate) struct CheckedApplication {
    pub(crate) spec: ApplicationSpec,
    /// Process id of its prototype; `None` if it does not run.
    pub(crate) prototype: Option<u32>,
    /// Process id of a prototype that starts, and since when; `None` if it runs.
    pub(crate) starting: Option<(u32, SystemTime)>,
}

/// Applications that cannot start, or run without their document roots, with their problems.
pub(crate) type Troubled = Vec<(String, Problem)>;

/// Applications whose directories have not answered.
#[derive(Debug, Default)]
pub(crate) struct Hung {
    /// Their problems, and the times of their last looks.
    known: BTreeMap<String, (Problem, Instant)>,
    /// The last look has ended without an answer, so the next one is without these.
    is_next_without: bool,
}

/// Looks at applications.
pub(crate) fn check(options: &Options, applications: &[CheckedApplication]) -> Troubled {
    let look = |app: &CheckedApplication| problem(options, app);
    let is_first = |app: &&CheckedApplication| look(app).is_some();
    let found: Vec<_> = applications.iter().filter(is_first).collect();
    if found.iter().any(|app| app.prototype.is_some()) {
        std::thread::sleep(SECOND_LOOK);
    }
    let again = found.into_iter().filter_map(|app| Some((app.spec.name.clone(), look(app)?)));
    let again = applications.iter().filter_map(changed_file).chain(again);
    let mut room = MAX_PROBLEM_BYTES;
    let fits = |(name, problem): &(String, Problem)| {
        let bytes = 32 + name.len() + problem.key.len() + problem.message.len();
        room = room.saturating_sub(bytes);
        room > 0
    };
    again.take_while(fits).collect()
}

fn problem(options: &Options, app: &CheckedApplication) -> Option<Problem> {
    progress(&app.spec);
    match app.prototype {
        Some(_) => {
            check_roots(&app.spec, app.prototype).and_then(|()| resources::check(&app.spec)).err()
        }
        None => preflight(options, &app.spec).and_then(|()| check_roots(&app.spec, None)).err(),
    }
}

/// Returns the name of an application that starts and a file that it may wait for, as a problem
/// with the key [`CHANGED`], if that has changed since its start began.
fn changed_file(app: &CheckedApplication) -> Option<(String, Problem)> {
    let (_, since) = app.starting?;
    progress(&app.spec);
    let file = start_files::changed_since(&app.spec, since)?;
    Some((app.spec.name.clone(), Problem::at(CHANGED, file.display())))
}

/// Says which application is looked at, and where.
pub(crate) fn progress(spec: &ApplicationSpec) {
    let paths = directories(spec).collect::<Vec<_>>().join(", ");
    file_progress(&format!("{}{paths}", place(&spec.name)));
}

fn directories(spec: &ApplicationSpec) -> impl Iterator<Item = &str> {
    let roots = spec.roots.iter().map(|(_, root)| root);
    spec.isolation.rootfs.iter().chain(roots).map(String::as_str)
}

fn place(name: &str) -> String {
    format!("application \"{name}\": ")
}

/// Returns the message to the router about these applications of a configuration.
pub(crate) fn message(generation: u32, troubled: Troubled) -> FromSupervisor {
    FromSupervisor::Troubled { generation, applications: troubled }
}

/// Reads the message of a look that has ended.
pub(crate) fn read(file: OwnedFd) -> Troubled {
    let message = read_memory_file(vec![file], MAX_MESSAGE as u64);
    match message.ok().and_then(|message| FromSupervisor::decode(&message).ok()) {
        Some(FromSupervisor::Troubled { applications, .. }) => applications,
        _ => Troubled::new(),
    }
}

/// Returns the mount points of this process. The kernel asks no file system for them.
pub(crate) fn mount_points() -> Vec<PathBuf> {
    let text = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    text.lines().filter_map(|line| Some(PathBuf::from(line.split(' ').nth(4)?))).collect()
}

/// Returns the mount point of a path, by their names alone; `None` for that of the system.
fn mount_of<'m>(path: &str, mounts: &'m [PathBuf]) -> Option<&'m Path> {
    let of = mounts.iter().filter(|mount| Path::new(path).starts_with(mount));
    let deepest = of.max_by_key(|mount| mount.components().count())?;
    Some(deepest.as_path()).filter(|mount| *mount != Path::new("/"))
}

impl Hung {
    /// Records that a look has ended without an answer. `error` names the application as
    /// [`progress`] did. Others in the same of `mounts` would not answer, either. Returns false if
    /// the error names none.
    pub(crate) fn add(
        &mut self,
        checked: &[CheckedApplication],
        error: &str,
        mounts: &[PathBuf],
        now: Instant,
    ) -> bool {
        let is_named = |app: &&CheckedApplication| error.starts_with(&place(&app.spec.name));
        let Some(named) = checked.iter().find(is_named) else { return false };
        let (_, reason) = error.rsplit_once(": ").unwrap_or_default();
        let mount = directories(&named.spec).find_map(|path| mount_of(path, mounts));
        let is_beside = |app: &&CheckedApplication| {
            let mut mounts = directories(&app.spec).map(|path| mount_of(path, mounts));
            app.spec.name == named.spec.name
                || mount.is_some() && mounts.any(|other| other == mount)
        };
        for CheckedApplication { spec, .. } in checked.iter().filter(is_beside) {
            let paths = directories(spec).collect::<Vec<_>>().join(", ");
            let problem = Problem::at("root", format_args!("{paths}: {reason}"));
            self.known.insert(spec.name.clone(), (problem, now));
        }
        self.is_next_without = true;
        true
    }

    /// Returns true if the directories of an application did not answer.
    pub(crate) fn is_known(&self, name: &str) -> bool {
        self.known.contains_key(name)
    }

    /// Returns true if the application is left out of a look that begins now.
    pub(crate) fn is_left_out(&self, name: &str, now: Instant) -> bool {
        let at = self.known.get(name).map(|(_, at)| *at);
        at.is_some_and(|at| self.is_next_without || now.saturating_duration_since(at) < HUNG_PAUSE)
    }

    /// Records a look that was answered. Returns the problems of the applications that were left
    /// out, as far as they still exist.
    pub(crate) fn answered(
        &mut self,
        checked: &[CheckedApplication],
        exists: impl Fn(&str) -> bool,
    ) -> Troubled {
        self.is_next_without = false;
        for CheckedApplication { spec, .. } in checked {
            self.known.remove(&spec.name);
        }
        self.known.retain(|name, _| exists(name));
        self.known.iter().map(|(name, (problem, _))| (name.clone(), problem.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn app(name: &str, root: &str) -> CheckedApplication {
        let roots = vec![("root".to_owned(), root.to_owned())];
        let spec = ApplicationSpec { roots, ..ApplicationSpec::new(name) };
        CheckedApplication { spec, prototype: None, starting: None }
    }

    fn names(troubled: &Troubled) -> Vec<&str> {
        troubled.iter().map(|(name, _)| name.as_str()).collect()
    }

    #[test]
    fn a_mount_that_hangs_is_left_out_for_a_while_and_its_applications_are_named() {
        let (mut hung, now) = (Hung::default(), Instant::now());
        let all =
            [app("a", "/srv/a"), app("b", "/mnt/x/b"), app("c", "/mnt/x/c"), app("d", "/mnt/d")];
        let mounts = ["/", "/mnt", "/mnt/x"].map(PathBuf::from);
        assert!(!hung.add(&all, "no process can be started", &mounts, now));
        let error = "application \"b\": /mnt/x/b: its file system has not answered for 5 s";
        assert!(hung.add(&all, error, &mounts, now));
        for later in [now, now + HUNG_PAUSE] {
            let left_out = all.iter().filter(|app| hung.is_left_out(&app.spec.name, later));
            assert_eq!(left_out.count(), 2, "the look is repeated without these");
        }
        let told = hung.answered(&[app("a", "/srv/a")], |_| true);
        assert_eq!(names(&told), ["b", "c"]);
        let problem = "/mnt/x/c: its file system has not answered for 5 s";
        assert_eq!(told[1].1, Problem::at("root", problem));
        assert!(hung.is_left_out("b", now) && !hung.is_left_out("b", now + HUNG_PAUSE));
        assert_eq!(names(&hung.answered(&all[1..2], |_| true)), ["c"], "it answers again");
        assert_eq!(names(&hung.answered(&[], |name| name != "c")), [""; 0], "it was removed");
    }

    #[test]
    fn of_two_in_the_file_system_of_the_server_one_hangs() {
        let (mut hung, now) = (Hung::default(), Instant::now());
        let all = [app("a", "/srv/a"), app("b", "/srv/b")];
        assert!(hung.add(&all, "application \"a\": /srv/a: no answer", &["/".into()], now));
        assert_eq!(names(&hung.answered(&[], |_| true)), ["a"]);
    }
}
