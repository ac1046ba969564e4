//! Opening files that somebody else has put there: only regular ones, since a pipe waits for a writer and a device never
//! ends, and never more of them than fits.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;

/// Longest configuration or the like that is read: 64 MiB.
pub const MAX_CONFIG_BYTES: u64 = 64 << 20;
/// Longest table, index or document that is read: 1 GiB.
pub const MAX_TABLE_BYTES: u64 = 1 << 30;

/// Opens a file (links are followed).
///
/// # Errors
/// Whatever opening gave, and [`io::ErrorKind::InvalidInput`] for what is no regular file.
pub fn open_regular(path: &Path) -> io::Result<File> {
    // Asked before opening: opening a pipe would wait for a writer.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    File::open(path)
}

/// Reads a file of at most `most` bytes.
///
/// # Errors
/// As [`open_regular`], whatever reading gave, and [`io::ErrorKind::FileTooLarge`].
pub fn read_regular(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_regular(path)?.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let message = format!("it has more than {most} bytes, and no such file has");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_is_no_file_is_neither_waited_for_nor_read_without_end() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        let link = folder.path().join("zero");
        symlink("/dev/zero", &link)?;
        for path in [Path::new("/dev/zero"), &link, folder.path()] {
            let error = read_regular(path, 10).expect_err("it is no file");
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{}", path.display());
        }
        let socket = folder.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket)?;
        assert!(open_regular(&socket).is_err());
        assert_eq!(
            open_regular(&folder.path().join("absent")).err().map(|error| error.kind()),
            Some(io::ErrorKind::NotFound)
        );
        Ok(())
    }

    #[test]
    fn a_file_may_be_as_long_as_allowed_and_no_longer() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("a");
        fs::write(&path, "12345")?;
        assert_eq!(read_regular(&path, 5)?, b"12345");
        assert_eq!(read_regular(&path, 4).err().map(|error| error.kind()), Some(io::ErrorKind::FileTooLarge));
        Ok(())
    }
}
