//! A file system in a mounted image, for tests that simulate a loss of power or fill the disk.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};

use crate::needs::report_not_run;

/// A program that shuts down a file system immediately, without writing anything more to it (`EXT4_IOC_SHUTDOWN`
/// without a flush of the journal).
const SHUTDOWN_PROGRAM: &str = "import fcntl, os, struct, sys
fcntl.ioctl(os.open(sys.argv[1], os.O_RDONLY), 0x8004587d, struct.pack('I', 2))";

/// An ext4 file system in an image file. Both are removed when this value is dropped.
#[derive(Debug)]
pub struct Disk {
    image: PathBuf,
    folder: PathBuf,
}

impl Disk {
    /// Makes a file system of `mib` MiB, and mounts it in a folder with a short path. This needs root.
    ///
    /// # Errors
    /// The file system cannot be made or mounted.
    pub fn new(name: &str, mib: u64) -> Result<Self> {
        let mount_point = PathBuf::from(format!("/tmp/agentstore-{name}-{}", std::process::id()));
        let disk = Self { image: mount_point.with_extension("image"), folder: mount_point };
        fs::create_dir(&disk.folder)?;
        fs::File::create(&disk.image)?.set_len(mib << 20)?;
        run(Command::new("mkfs.ext4").arg("-q").arg(&disk.image))?;
        disk.mount()?;
        Ok(disk)
    }

    /// Makes a file system for a test. If none can be mounted, prints that the test is not run, and returns `None`.
    #[must_use]
    pub fn new_or_skip(name: &str, mib: u64) -> Option<Self> {
        Self::new(name, mib)
            .map_err(|error| report_not_run("a test on its own disk, which cannot be mounted", error))
            .ok()
    }

    /// Returns the folder in which the file system is mounted.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn mount(&self) -> Result<()> {
        run(Command::new("mount").args(["-o", "loop"]).arg(&self.image).arg(&self.folder))
    }

    /// Syncs the file system: what is only in memory is written to the image.
    ///
    /// # Errors
    /// A command of the system fails.
    pub fn sync(&self) -> Result<()> {
        run(Command::new("sync").arg("--file-system").arg(&self.folder))
    }

    /// Simulates a loss of power: what was not synced is lost. From now on every use of the file system fails, until
    /// [`power_on`](Self::power_on).
    ///
    /// # Errors
    /// A command of the system fails.
    pub fn cut_power(&self) -> Result<()> {
        run(Command::new("python3").args(["-c", SHUTDOWN_PROGRAM]).arg(&self.folder))
    }

    /// Makes the kernel report an error in the file system. From then on the file system is read-only, until
    /// [`power_on`](Self::power_on).
    ///
    /// # Errors
    /// A command of the system fails.
    pub fn turn_read_only(&self) -> Result<()> {
        run(Command::new("mount").args(["-o", "remount,errors=remount-ro"]).arg(&self.folder))?;
        let device = output(Command::new("findmnt").args(["-n", "-o", "SOURCE"]).arg(&self.folder))?;
        let name = Path::new(device.trim()).file_name().context("the disk has no device")?;
        Ok(fs::write(Path::new("/sys/fs/ext4").join(name).join("trigger_fs_error"), "a test")?)
    }

    /// Mounts the file system again, with the content of its image. All processes must have stopped using it.
    ///
    /// # Errors
    /// A process still uses the file system after two seconds, or it cannot be mounted.
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

    /// Fills the file system, but leaves `free_mib` MiB free. Returns the path of the file that fills it, so that the
    /// caller can remove the file.
    ///
    /// # Errors
    /// The file cannot be created, or less than `free_mib` MiB are free before the call.
    pub fn fill(&self, free_mib: usize) -> Result<PathBuf> {
        let (filler, spare) = (self.folder.join("filler"), self.folder.join("spare"));
        let zeros = vec![0; 1 << 20];
        let mut spare_file = fs::File::create(&spare)?;
        (0..free_mib).try_for_each(|_| spare_file.write_all(&zeros))?;
        let mut file = fs::File::create(&filler)?;
        while file.write_all(&zeros).is_ok() {}
        fs::remove_file(spare)?;
        Ok(filler)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _unmounted = run(Command::new("umount").arg("--lazy").arg(&self.folder));
        let _removed = (fs::remove_dir(&self.folder), fs::remove_file(&self.image));
    }
}

fn run(command: &mut Command) -> Result<()> {
    output(command).map(drop)
}

fn output(command: &mut Command) -> Result<String> {
    let output = command.output()?;
    if !output.status.success() {
        bail!("{:?} failed: {}", command.get_program(), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8(output.stdout)?)
}
