//! The directory of a store, which belongs to one process at a time. May not know what is in the database.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::store::Error;

/// A directory that this process holds: dropping it lets the next one in.
#[derive(Debug)]
pub(super) struct Place {
    /// The database's file.
    pub(super) database: PathBuf,
    _lock: File,
}

impl Place {
    /// Takes the directory, which is made when it doesn't exist.
    pub(super) fn claim(directory: &Path) -> Result<Self, Error> {
        make(directory).map_err(|error| Error::Open(format!("can't make the store's directory `{}`: {error}", directory.display())))?;
        let lock = lock(directory)?;
        let database = directory.join("headwater.db");
        check_files(&database)?;
        Ok(Self { database, _lock: lock })
    }
}

/// Makes the directory, so that it is there after a power cut too.
fn make(directory: &Path) -> io::Result<()> {
    if directory.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(directory)?;
    if cfg!(unix) {
        // A relative path of one part has an empty parent, which is the working directory.
        let parent = directory.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(parent)?.sync_all()?;
    }
    Ok(())
}

/// The lock is the operating system's: it ends with the process, however that ends.
fn lock(directory: &Path) -> Result<File, Error> {
    let path = directory.join("headwater.lock");
    let unwritable = |error: io::Error| {
        Error::Open(format!("can't write `{}`: {error}; the store's directory `{}` must be writable", path.display(), directory.display()))
    };
    let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path).map_err(unwritable)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let holder = fs::read_to_string(&path).unwrap_or_default();
            let holder = holder.trim().parse::<u32>().map_or_else(|_| String::new(), |id| format!(" (process {id})"));
            let directory = directory.display();
            return Err(Error::Open(format!(
                "the store `{directory}` is in use by another process{holder}: stop that one, or give this one a `path` of its own"
            )));
        }
        Err(TryLockError::Error(error)) => return Err(Error::Open(format!("can't lock `{}`: {error}", path.display()))),
    }
    // Who holds it is only a hint for people: a disk without room for it is no reason to stop.
    let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
    Ok(file)
}

/// SQLite would begin anew here, and drop what the log still holds.
fn check_files(database: &Path) -> Result<(), Error> {
    let size = |path: &Path| fs::metadata(path).map_or(0, |file| file.len());
    let mut log = database.as_os_str().to_owned();
    log.push("-wal");
    if size(database) == 0 && size(Path::new(&log)) > 0 {
        let what = format!("`{}` is missing or empty, though its log `{}` isn't", database.display(), Path::new(&log).display());
        return Err(Error::Corrupt { what: format!("{what}: restore both from one backup, or move both away") });
    }
    Ok(())
}
