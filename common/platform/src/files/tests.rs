use super::*;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// A directory of this test's own, gone with it.
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
fn a_replaced_file_has_the_new_content_and_rights() {
    let scratch = Scratch::new("replace");
    let path = scratch.0.join("token");
    assert_eq!(read_text(&path, 10).unwrap(), None);
    replace(&path, b"first", Access::Everybody).unwrap();
    fs::write(scratch.0.join("token.new"), "left behind").unwrap();
    replace(&path, b"second", Access::Owner).unwrap();
    assert_eq!(read_text(&path, 10).unwrap().as_deref(), Some("second"));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!exists(&scratch.0.join("token.new")).unwrap());
}

#[test]
fn an_exchanged_file_has_the_new_content_and_a_directory_tells_its_names() {
    let scratch = Scratch::new("exchange");
    assert!(names(&scratch.0.join("none")).unwrap().is_empty());
    for content in ["first", "second"] {
        exchange(&scratch.0.join("b"), content.as_bytes(), Access::Owner).unwrap();
        assert_eq!(read_text(&scratch.0.join("b"), 10).unwrap().as_deref(), Some(content));
    }
    exchange(&scratch.0.join("a"), b"", Access::Everybody).unwrap();
    assert_eq!(names(&scratch.0).unwrap(), ["a", "b"]);
}

#[test]
fn a_file_that_is_too_large_is_refused() {
    let scratch = Scratch::new("limit");
    let path = scratch.0.join("large");
    replace(&path, b"0123456789a", Access::Owner).unwrap();
    assert_eq!(read_text(&path, 10).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    assert_eq!(read_text(&path, 11).unwrap().as_deref(), Some("0123456789a"));
}

#[test]
fn removing_what_is_not_there_is_no_error() {
    let scratch = Scratch::new("remove");
    let path = scratch.0.join("file");
    replace(&path, b"", Access::Owner).unwrap();
    remove(&path).unwrap();
    remove(&path).unwrap();
    assert!(!exists(&path).unwrap());
}
