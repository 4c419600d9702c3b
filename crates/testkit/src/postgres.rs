//! A real PostgreSQL server of a test's own: its data in a temporary folder, reached by a socket in that folder, gone with
//! the value.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use uuid::Uuid;

/// How long the server may take to be ready on a busy machine.
const READY: Duration = Duration::from_secs(60);

/// How long a server that was told to stop at once may take.
const GONE: Duration = Duration::from_secs(20);

/// Where Debian and its kin keep each version's programs.
const DEBIAN: &str = "/usr/lib/postgresql";

/// Name of the superuser; nobody outside the socket's folder can get to it.
const USER: &str = "everdict";

/// Whether a commit waits for the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// As servers do; for measurements.
    Disk,
    /// As tests want it.
    None,
}

/// A running server.
#[derive(Debug)]
pub struct Postgres {
    folder: PathBuf,
    programs: PathBuf,
    server: Child,
}

impl Postgres {
    /// Starts a server for a test. Returns `None` after a line in the file that `EVERDICT_SKIP_LOG` names when
    /// PostgreSQL is not installed.
    ///
    /// # Panics
    /// When it is installed and does not start: then the test cannot say anything.
    #[must_use]
    pub fn start_or_skip(test: &str) -> Option<Self> {
        let Some(programs) = programs() else {
            skip(test);
            return None;
        };
        let started = Self::start_in(programs, Durability::None);
        Some(started.unwrap_or_else(|error| panic!("start PostgreSQL: {error}")))
    }

    /// Starts a server.
    ///
    /// # Errors
    /// When PostgreSQL is not installed, or what it said when it did not start.
    pub fn start(durability: Durability) -> io::Result<Self> {
        let programs = programs().ok_or_else(|| {
            io::Error::other("PostgreSQL's initdb was not found: install the package postgresql")
        })?;
        Self::start_in(programs, durability)
    }

    fn start_in(programs: PathBuf, durability: Durability) -> io::Result<Self> {
        let user = Account::for_server()?;
        let folder = std::env::temp_dir().join(format!("evd-pg-{}", Uuid::new_v4().simple()));
        user.make_folder(&folder)?;
        let server = template(&programs, user).and_then(|template| {
            run(user
                .command("cp")
                .arg("-a")
                .arg(template)
                .arg(folder.join("data")))?;
            serve(&programs, user, &folder, durability)
        });
        let server = match server {
            Ok(server) => server,
            Err(error) => {
                let _ = fs::remove_dir_all(&folder);
                return Err(error);
            }
        };
        let mut postgres = Self {
            folder,
            programs,
            server,
        };
        postgres.wait_until_ready()?;
        Ok(postgres)
    }

    /// The address of the database that every server has.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_of("postgres")
    }

    /// The address of a database of this server.
    #[must_use]
    pub fn url_of(&self, database: &str) -> String {
        format!(
            "postgres://{USER}@localhost/{database}?host={}",
            self.folder.display()
        )
    }

    /// One of PostgreSQL's own programs, set up to talk to this server.
    #[must_use]
    pub fn program(&self, name: &str) -> Command {
        let mut command = plain(self.programs.join(name));
        command.env("PGHOST", &self.folder).env("PGUSER", USER);
        command
    }

    /// Processor time that the server and its processes have used.
    ///
    /// # Errors
    /// When the system does not tell.
    pub fn processor_ms(&self) -> io::Result<f64> {
        let mut ticks = 0;
        for entry in fs::read_dir("/proc")?.flatten() {
            let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else {
                continue;
            };
            // After the name in brackets: state, parent, …, user and system time at positions 12 and 13.
            let Some((head, rest)) = stat.rsplit_once(')') else {
                continue;
            };
            let fields: Vec<_> = rest.split_ascii_whitespace().collect();
            let own = self.server.id().to_string();
            let ours = head.starts_with(&format!("{own} ")) || fields.get(1) == Some(&own.as_str());
            if ours {
                ticks += [11, 12]
                    .iter()
                    .filter_map(|at| fields.get(*at)?.parse::<u64>().ok())
                    .sum::<u64>();
            }
        }
        Ok(ticks as f64 * 10.0)
    }

    /// Waits for the line in the server's own file that says it takes connections.
    fn wait_until_ready(&mut self) -> io::Result<()> {
        let until = Instant::now() + READY;
        loop {
            let state = fs::read_to_string(self.folder.join("data/postmaster.pid")).unwrap_or_default();
            if state.lines().nth(7).is_some_and(|line| line.trim() == "ready") {
                return Ok(());
            }
            if self.server.try_wait()?.is_some() || Instant::now() > until {
                let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
                return Err(io::Error::other(format!("the server did not start:\n{log}")));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // "Quit" is the server's word for stopping at once without leaving shared memory behind.
        if let Some(pid) = i32::try_from(self.server.id())
            .ok()
            .and_then(rustix::process::Pid::from_raw)
        {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::QUIT);
        }
        let until = Instant::now() + GONE;
        while matches!(self.server.try_wait(), Ok(None)) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2));
        }
        let _ = self.server.kill();
        let _ = self.server.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Whom the server runs as: it refuses to be root.
#[derive(Debug, Clone, Copy)]
enum Account {
    Ours,
    Other { uid: u32, gid: u32 },
}

impl Account {
    fn for_server() -> io::Result<Self> {
        if !rustix::process::geteuid().is_root() {
            return Ok(Self::Ours);
        }
        let accounts = fs::read_to_string("/etc/passwd")?;
        let find = |name: &str| {
            let line = accounts
                .lines()
                .find(|line| line.starts_with(&format!("{name}:")))?;
            let mut fields = line.split(':').skip(2);
            Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
        };
        let (uid, gid) = find("postgres")
            .or_else(|| find("nobody"))
            .ok_or_else(|| io::Error::other("there is no account that is not root's"))?;
        Ok(Self::Other { uid, gid })
    }

    fn make_folder(self, folder: &Path) -> io::Result<()> {
        fs::create_dir(folder)?;
        // The socket is in here, and whoever runs the test has to get to it.
        fs::set_permissions(folder, Permissions::from_mode(0o755))?;
        if let Self::Other { uid, gid } = self {
            chown(folder, Some(uid), Some(gid))?;
        }
        Ok(())
    }

    fn command(self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = plain(program);
        command.current_dir("/");
        if let Self::Other { uid, gid } = self {
            command.uid(uid).gid(gid);
        }
        command
    }

    fn name(self) -> String {
        match self {
            Self::Ours => rustix::process::geteuid().as_raw().to_string(),
            Self::Other { uid, .. } => uid.to_string(),
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a test's own server, not a job's process"
)]
fn plain(program: impl AsRef<std::ffi::OsStr>) -> Command {
    Command::new(program)
}

/// A folder that `initdb` has filled, made once per machine: it takes as long as a hundred tests.
fn template(programs: &Path, user: Account) -> io::Result<PathBuf> {
    let version = programs.display().to_string().replace('/', "-");
    let home = std::env::temp_dir().join(format!("evd-pg-template-{}{version}", user.name()));
    let lock = File::create(home.with_extension("lock"))?;
    lock.lock()?;
    let data = home.join("data");
    // Made under another name, so that one that was interrupted is not taken for a whole one.
    if !data.exists() {
        let _ = fs::remove_dir_all(&home);
        user.make_folder(&home)?;
        let part = home.join("part");
        run(user
            .command(programs.join("initdb"))
            .args([
                "--no-sync",
                "--auth=trust",
                "--encoding=UTF8",
                "--locale=C",
                "--wal-segsize=1",
            ])
            .arg("--username")
            .arg(USER)
            .arg("--pgdata")
            .arg(&part))?;
        fs::rename(part, &data)?;
    }
    Ok(data)
}

fn serve(programs: &Path, user: Account, folder: &Path, durability: Durability) -> io::Result<Child> {
    let log = File::create(folder.join("log"))?;
    let mut command = user.command(programs.join("postgres"));
    command
        .arg("-D")
        .arg(folder.join("data"))
        .arg("-k")
        .arg(folder)
        .args(["-c", "listen_addresses=", "-c", "max_connections=100"])
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log);
    if durability == Durability::None {
        command.args(["-c", "fsync=off", "-c", "full_page_writes=off"]);
    }
    command.spawn()
}

fn run(command: &mut Command) -> io::Result<()> {
    let output = command.stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("{command:?}: {said}")))
}

/// The folder with `initdb` and `postgres`, the newest version first.
fn programs() -> Option<PathBuf> {
    let mut versions: Vec<(u32, PathBuf)> = fs::read_dir(DEBIAN)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let version = entry.file_name().to_str()?.parse().ok()?;
            Some((version, entry.path().join("bin")))
        })
        .collect();
    versions.sort();
    versions.reverse();
    let path = path();
    versions
        .into_iter()
        .map(|(_, folder)| folder)
        .chain(std::env::split_paths(&path))
        .find(|folder| folder.join("initdb").exists() && folder.join("postgres").exists())
}

#[expect(clippy::disallowed_methods, reason = "this process is the test")]
fn path() -> std::ffi::OsString {
    std::env::var_os("PATH").unwrap_or_default()
}

#[expect(clippy::disallowed_methods, reason = "this process is the test")]
fn skip(test: &str) {
    use std::io::Write as _;
    let Some(log) = std::env::var_os("EVERDICT_SKIP_LOG") else {
        return;
    };
    let file = File::options().create(true).append(true).open(log);
    if let Ok(mut file) = file {
        let _ = writeln!(file, "{test}: PostgreSQL is not installed (install postgresql)");
    }
}
