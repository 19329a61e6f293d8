use super::*;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// A directory of one test, removed at its end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("ibid-files-{}-{name}", std::process::id()));
        create_directory(&path).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn replaced_file_has_new_content_and_mode() {
    let scratch = Scratch::new("replace");
    let path = scratch.0.join("token");
    assert_eq!(read_text(&path, 10).unwrap(), None);
    replace(&path, b"first", Access::Everyone).unwrap();
    fs::write(scratch.0.join("token.new"), "stale").unwrap();
    replace(&path, b"second", Access::Owner).unwrap();
    assert_eq!(read_text(&path, 10).unwrap().as_deref(), Some("second"));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!exists(&scratch.0.join("token.new")).unwrap());
}

#[test]
fn exchanged_files_and_directory_names() {
    let scratch = Scratch::new("exchange");
    assert!(names(&scratch.0.join("none")).unwrap().is_empty());
    for content in ["first", "second"] {
        replace_volatile(&scratch.0.join("b"), content.as_bytes(), Access::Owner).unwrap();
        assert_eq!(read_text(&scratch.0.join("b"), 10).unwrap().as_deref(), Some(content));
    }
    replace_volatile(&scratch.0.join("a"), b"", Access::Everyone).unwrap();
    assert_eq!(names(&scratch.0).unwrap(), ["a", "b"]);
}

#[test]
fn reading_a_file_over_the_limit_fails() {
    let scratch = Scratch::new("limit");
    let path = scratch.0.join("large");
    replace(&path, b"0123456789a", Access::Owner).unwrap();
    assert_eq!(read_text(&path, 10).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    assert_eq!(read_text(&path, 11).unwrap().as_deref(), Some("0123456789a"));
}

#[test]
fn removing_a_missing_file_succeeds() {
    let scratch = Scratch::new("remove");
    let path = scratch.0.join("file");
    replace(&path, b"", Access::Owner).unwrap();
    remove(&path).unwrap();
    remove(&path).unwrap();
    assert!(!exists(&path).unwrap());
}
