//! Paths: names separated by slashes, from the root.

use crate::layout::page::MAX_FILE_NAME_BYTES;
use crate::{DatastoreError, Result};

/// Splits a path into names. `/` has none.
pub(crate) fn names(path: &str) -> Result<Vec<&str>> {
    let names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
    let is_name =
        |name: &&str| !matches!(*name, "." | "..") && name.len() <= MAX_FILE_NAME_BYTES && !name.contains('\0');
    if names.iter().all(is_name) { Ok(names) } else { Err(DatastoreError::InvalidPath(path.to_owned())) }
}

/// Splits a path into the names of the directory and the last name.
pub(crate) fn split(path: &str) -> Result<(Vec<&str>, &str)> {
    let mut names = names(path)?;
    let last = names.pop().ok_or_else(|| DatastoreError::InvalidPath(path.to_owned()))?;
    Ok((names, last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_split_into_valid_names() {
        assert_eq!(names("/"), Ok(vec![]));
        assert_eq!(names("/vm//vm.vmx"), Ok(vec!["vm", "vm.vmx"]));
        assert_eq!(split("vm/vm.vmx"), Ok((vec!["vm"], "vm.vmx")));
        for bad in ["/..", "/a/./b", &"x".repeat(113)] {
            assert_eq!(names(bad), Err(DatastoreError::InvalidPath(bad.to_owned())));
        }
        assert_eq!(split("/"), Err(DatastoreError::InvalidPath("/".into())));
    }
}
