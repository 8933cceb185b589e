//! The steps from a fork to the command of a job: those of a prototype, and then the program of the
//! document in the place of `howdah-php`.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use howdah_jobs::zone::Zone;
use howdah_jobs::{Job, php_command};
use howdah_sys::{pipe, process_tree};
use howdah_wire::messages::{ApplicationSpec, Problem};

use crate::control_groups::ControlGroups;
use crate::identity::Identity;
use crate::launch::Rights;
use crate::options::{Options, PhpProgram, newest_php};
use crate::prototype::{Requirements, requirements};
use crate::resources::Plan;
use crate::time_zones;

/// The word that stands for the command-line PHP of the application's version.
const PHP: &str = "php";

/// A process of a job to start.
pub(crate) struct JobLaunch<'a> {
    pub(crate) spec: &'a ApplicationSpec,
    pub(crate) job: &'a Job,
    identity: Identity,
    /// The program `howdah-php`, which belongs to the sandbox.
    executable: Arc<File>,
    /// Version of PHP: two numbers.
    version: String,
}

impl<'a> JobLaunch<'a> {
    /// Looks up what the process needs. Error: the reason why it cannot be started.
    pub(crate) fn new(
        options: &Options,
        spec: &'a ApplicationSpec,
        job: &'a Job,
    ) -> Result<JobLaunch<'a>, Problem> {
        let Requirements { executable, identity } = requirements(options, spec)?;
        let version = php_version(&options.php, spec);
        Ok(JobLaunch { spec, job, identity, executable, version })
    }

    /// Starts the process. Returns its id, and the reading end of a pipe: it has the reason if the
    /// new process ends before it has executed the command, and nothing otherwise.
    pub(crate) fn start(
        &self,
        output: OwnedFd,
        plan: &mut Plan,
        groups: &mut ControlGroups,
    ) -> io::Result<(u32, OwnedFd)> {
        let parent = std::process::id();
        let rights = Rights { spec: self.spec, identity: &self.identity };
        // Closed on exec.
        let (reason, failure) = pipe::new()?;
        let pid = rights.start(plan, groups, false, || {
            let prepared = howdah_launch::read_environment_files(self.spec).and_then(|files| {
                rights.give_up(output.as_fd(), &self.executable, parent, false).map(|()| files)
            });
            let problem = match prepared {
                Err(problem) => problem,
                Ok(files) => self.execute(&files),
            };
            let _ = rustix::io::write(&failure, problem.to_string().as_bytes());
        })?;
        Ok((pid, reason))
    }

    /// Executes the command. Returns only the error.
    fn execute(&self, files: &[(String, String)]) -> Problem {
        // What the command leaves behind stays below it, so that it ends with the command.
        if let Err(error) = process_tree::adopt_orphans() {
            return Problem::of(error);
        }
        let directory = directory(self.spec, self.job);
        if let Some(directory) = &directory
            && let Err(error) = std::env::set_current_dir(directory)
        {
            let at = key(self.job, "working_directory");
            return Problem::at(at, format_args!("{}: {error}", directory.display()));
        }
        let at = key(self.job, "command");
        let [name, arguments @ ..] = self.job.command.as_slice() else {
            return Problem::at(at, "has no program");
        };
        let mut command = match name.as_str() {
            PHP => match php_command::find(&self.version, &|path| path.is_file()) {
                Ok(program) => Command::new(program),
                Err(problem) => return Problem::at(at, problem),
            },
            name => Command::new(name),
        };
        if name == PHP {
            command.args(self.settings());
        }
        let environment = howdah_launch::environment(self.spec, self.identity.user.as_ref(), files);
        command.args(arguments).env_clear().envs(environment);
        command.envs(self.job.environment.iter().map(|(name, value)| (name, value)));
        let error = command.exec();
        Problem::at(at, format_args!("\"{name}\": {error}"))
    }

    /// Returns the arguments with which PHP has the settings of the application.
    fn settings(&self) -> Vec<String> {
        let mut arguments = Vec::new();
        if let Some(file) = &self.spec.ini_file {
            arguments.extend(["-c".to_owned(), file.clone()]);
        }
        let settings = self.spec.ini_user.iter().chain(&self.spec.ini_admin);
        arguments.extend(settings.flat_map(|(name, value)| php_command::setting(name, value)));
        arguments
    }
}

/// Checks that the command and the time zone of a job exist, as far as that is known without
/// starting it. Error: the reason why it cannot be started.
pub fn check(php: &[PhpProgram], spec: &ApplicationSpec, job: &Job) -> Result<(), Problem> {
    time_zone(job)?;
    if spec.isolation.rootfs.is_some() {
        return Ok(()); // links in there lead elsewhere here
    }
    let at = || key(job, "command");
    let name = job.command.first().map_or("", String::as_str);
    if name == PHP {
        let found = php_command::find(&php_version(php, spec), &|path| path.is_file());
        return found.map(drop).map_err(|problem| Problem::at(at(), problem));
    }
    if name.contains('/') {
        let path = directory(spec, job).unwrap_or_default().join(name);
        return match path.metadata() {
            Ok(found) if found.is_file() => Ok(()),
            Ok(_) => Err(Problem::at(at(), format_args!("{} is no file", path.display()))),
            // Deployments make it later, or only the application's user may see it.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
            Err(error) => Err(Problem::at(at(), format_args!("{}: {error}", path.display()))),
        };
    }
    let path = spec.environment.iter().find(|(variable, _)| variable == "PATH");
    let path = path.map_or(howdah_sys::environment::DEFAULT_PATH, |(_, value)| value);
    if path.split(':').any(|directory| Path::new(directory).join(name).is_file()) {
        return Ok(());
    }
    let message = format_args!(
        "there is no program \"{name}\" in {path}; install it, write its path, or set PATH in \
         \"environment\""
    );
    Err(Problem::at(at(), message))
}

/// Returns the time zone of a timer; UTC if the job is none.
pub(crate) fn time_zone(job: &Job) -> Result<Zone, Problem> {
    let Some(timer) = &job.timer else { return Ok(Zone::utc()) };
    let found = time_zones::read(timer.time_zone.as_deref());
    found.map_err(|problem| Problem::at(key(job, "time_zone"), problem))
}

/// Returns the first two numbers of the version of PHP that an application has.
fn php_version(php: &[PhpProgram], spec: &ApplicationSpec) -> String {
    let program = newest_php(php, &spec.php_version);
    let version = program.map_or(spec.php_version.as_str(), |program| program.version.as_str());
    version.split('.').take(2).collect::<Vec<_>>().join(".")
}

/// Returns the directory that a command starts in; `None`: the server's own.
fn directory(spec: &ApplicationSpec, job: &Job) -> Option<PathBuf> {
    let own = job.working_directory.clone();
    let of_application = || spec.working_directory.as_ref().map(PathBuf::from);
    let root = || spec.roots.first().map(|(_, root)| PathBuf::from(root));
    own.or_else(of_application).or_else(root)
}

/// Returns the path of a key of a job, relative to its application.
fn key(job: &Job, key: &str) -> String {
    format!("jobs/{}/{key}", job.name)
}
