//! A file system of its own, in an image that is mounted: its power can go, and it can be full.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};

use crate::needs::not_run;

/// Stops a file system in the middle, with nothing of it written any more (`EXT4_IOC_SHUTDOWN`, no flush of the log).
const SHUTDOWN: &str = "import fcntl, os, struct, sys
fcntl.ioctl(os.open(sys.argv[1], os.O_RDONLY), 0x8004587d, struct.pack('I', 2))";

/// An ext4 file system. It goes with its image when it is dropped.
#[derive(Debug)]
pub struct Disk {
    image: PathBuf,
    folder: PathBuf,
}

impl Disk {
    /// One of so many MiB, mounted in a folder whose path is short. Only root can do that.
    ///
    /// # Errors
    /// It cannot be made or mounted.
    pub fn new(name: &str, mib: u64) -> Result<Self> {
        let around = PathBuf::from(format!("/tmp/agentstore-{name}-{}", std::process::id()));
        let disk = Self { image: around.with_extension("image"), folder: around };
        fs::create_dir(&disk.folder)?;
        fs::File::create(&disk.image)?.set_len(mib << 20)?;
        run(Command::new("mkfs.ext4").arg("-q").arg(&disk.image))?;
        disk.mount()?;
        Ok(disk)
    }

    /// One for a test; nothing where none can be mounted, and a word that the test is not run.
    #[must_use]
    pub fn for_a_test(name: &str, mib: u64) -> Option<Self> {
        Self::new(name, mib).map_err(|error| not_run("a test on a disk of its own, as none can be mounted", error)).ok()
    }

    /// Where it is mounted.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn mount(&self) -> Result<()> {
        run(Command::new("mount").args(["-o", "loop"]).arg(&self.image).arg(&self.folder))
    }

    /// Writes out all that is not.
    ///
    /// # Errors
    /// The system says no.
    pub fn sync(&self) -> Result<()> {
        run(Command::new("sync").arg("--file-system").arg(&self.folder))
    }

    /// Cuts the power: what was not written out is lost. Whoever uses it gets errors from now on, until
    /// [`power_on`](Self::power_on).
    ///
    /// # Errors
    /// The system says no.
    pub fn cut_power(&self) -> Result<()> {
        run(Command::new("python3").args(["-c", SHUTDOWN]).arg(&self.folder))
    }

    /// Makes the system find a fault in it, after which it can only be read, until [`power_on`](Self::power_on).
    ///
    /// # Errors
    /// The system says no.
    pub fn turn_read_only(&self) -> Result<()> {
        run(Command::new("mount").args(["-o", "remount,errors=remount-ro"]).arg(&self.folder))?;
        let device = output(Command::new("findmnt").args(["-n", "-o", "SOURCE"]).arg(&self.folder))?;
        let name = Path::new(device.trim()).file_name().context("the disk has no device")?;
        Ok(fs::write(Path::new("/sys/fs/ext4").join(name).join("trigger_fs_error"), "a test")?)
    }

    /// Mounts it again, with what it has. Nobody may use it any more.
    ///
    /// # Errors
    /// Somebody does.
    pub fn power_on(&self) -> Result<()> {
        let mut tries = 0;
        while let Err(error) = run(Command::new("umount").arg(&self.folder)) {
            tries += 1;
            if tries == 100 {
                return Err(error);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        self.mount()
    }

    /// Takes all space but so many MiB, until the file that is given back is removed.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn fill(&self, but_mib: usize) -> Result<PathBuf> {
        let (filler, spare) = (self.folder.join("filler"), self.folder.join("spare"));
        let zeros = vec![0; 1 << 20];
        let mut kept = fs::File::create(&spare)?;
        (0..but_mib).try_for_each(|_| kept.write_all(&zeros))?;
        let mut file = fs::File::create(&filler)?;
        while file.write_all(&zeros).is_ok() {}
        fs::remove_file(spare)?;
        Ok(filler)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _gone = run(Command::new("umount").arg("--lazy").arg(&self.folder));
        let _removed = (fs::remove_dir(&self.folder), fs::remove_file(&self.image));
    }
}

fn run(command: &mut Command) -> Result<()> {
    output(command).map(drop)
}

fn output(command: &mut Command) -> Result<String> {
    let done = command.output()?;
    if !done.status.success() {
        bail!("{:?} failed: {}", command.get_program(), String::from_utf8_lossy(&done.stderr).trim());
    }
    Ok(String::from_utf8(done.stdout)?)
}
