//! A file that grows line by line and holds whole lines only: a write that fails is taken back.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;

use super::error::StoreError;

#[derive(Debug)]
pub(super) struct LineFile {
    file: File,
    path: PathBuf,
    bytes: u64,
}

impl LineFile {
    /// `file` is empty and open for appending.
    pub(super) const fn new(file: File, path: PathBuf) -> Self {
        Self { file, path, bytes: 0 }
    }

    /// `file` holds `bytes` bytes of whole lines and is open for appending.
    pub(super) const fn resumed(file: File, path: PathBuf, bytes: u64) -> Self {
        Self { file, path, bytes }
    }

    /// The file itself, for whoever must keep it open.
    pub(super) fn into_file(self) -> File {
        self.file
    }

    /// Bytes written so far.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Writes whole lines through to the disk, or leaves the file as it was.
    pub(super) fn append(&mut self, lines: &str) -> Result<(), StoreError> {
        let written = self.file.write_all(lines.as_bytes()).and_then(|()| sync(&self.file));
        match written {
            Ok(()) => {
                self.bytes = self.bytes.saturating_add(lines.len() as u64);
                Ok(())
            }
            Err(source) => {
                self.cut_to(self.bytes);
                Err(StoreError::writing(&self.path, lines.len(), source))
            }
        }
    }

    /// Takes back what was written after the first `bytes` bytes. A failure leaves a torn line, which readers of
    /// unfinished files expect.
    pub(super) fn cut_to(&mut self, bytes: u64) {
        if self.file.set_len(bytes).is_ok() {
            self.bytes = bytes;
        }
    }
}

/// Some file systems cannot sync and say so; that is no loss of data.
pub(super) fn sync(file: &File) -> io::Result<()> {
    match file.sync_data() {
        Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => {
            Ok(())
        }
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_device_is_named_with_the_bytes_that_did_not_fit() {
        let device = PathBuf::from("/dev/full");
        let file = File::options().write(true).open(&device).expect("OK because Linux has this device");
        let error =
            LineFile::new(file, device).append("abc\n").expect_err("OK because the device is always full");
        assert!(matches!(error, StoreError::DiskFull { bytes: 4, .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains("/dev/full") && text.contains("4 more bytes"), "{text}");
    }

    #[test]
    fn taken_back_lines_are_gone_and_later_ones_follow_the_kept() {
        let folder = tempfile::tempdir().expect("OK because tests need a temporary folder");
        let path = folder.path().join("lines");
        let file = super::super::claim::create_new(&path).expect("OK because the folder is ours");
        let mut lines = LineFile::new(file, path.clone());
        lines.append("one\n").expect("OK because there is space");
        let kept = lines.bytes();
        lines.append("two\n").expect("OK because there is space");
        lines.cut_to(kept);
        lines.append("three\n").expect("OK because there is space");
        assert_eq!(std::fs::read_to_string(path).expect("OK because it was just written"), "one\nthree\n");
    }
}
