//! Unix sockets for processes of the same machine.

use super::async_io::delegate_async_io;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Maximum length of a socket's path in bytes (`sun_path`, with the final zero).
const MAX_PATH_BYTES: usize = 107;

/// The user of the process at the other end of a Unix socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LocalUser(pub u32);

impl LocalUser {
    /// Returns whether the process may do anything that this process may do: it has the same user,
    /// or it is root.
    pub fn is_owner_or_root(self) -> bool {
        self.0 == 0 || self.0 == rustix::process::geteuid().as_raw()
    }
}

/// A listening Unix socket that only the owner may connect to (mode 0600). Its file is removed when
/// the listener is dropped.
#[derive(Debug)]
#[allow(clippy::disallowed_types, reason = "only this crate may access the outside")]
pub struct LocalListener {
    listener: tokio::net::UnixListener,
    path: PathBuf,
}

impl LocalListener {
    /// Binds `path`, and replaces the socket of a process that was killed. Must be called within a
    /// tokio runtime. The caller holds a lock, so that no other process listens on `path`.
    ///
    /// # Errors
    ///
    /// Fails if the directory cannot be written.
    #[allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "only this crate may access the outside")]
    pub fn bind(path: &Path) -> io::Result<Self> {
        let mut new = path.as_os_str().to_owned();
        new.push(".new");
        let new = PathBuf::from(new);
        crate::files::remove(&new)?;
        let listener = tokio::net::UnixListener::bind(short(&new)?.path())?;
        // The socket gets its name when it has its permissions.
        std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o600))?;
        std::fs::rename(&new, path)?;
        Ok(Self { listener, path: path.to_owned() })
    }

    /// Waits for the next connection; returns it with the peer's user.
    pub async fn accept(&self) -> io::Result<(LocalStream, LocalUser)> {
        let (stream, _) = self.listener.accept().await?;
        let user = LocalUser(stream.peer_cred()?.uid());
        Ok((LocalStream(stream), user))
    }
}

impl Drop for LocalListener {
    fn drop(&mut self) {
        // A file that remains is replaced by the next start.
        let _ = crate::files::remove(&self.path);
    }
}

/// A connection over a Unix socket.
#[derive(Debug)]
#[allow(clippy::disallowed_types, reason = "only this crate may access the outside")]
pub struct LocalStream(tokio::net::UnixStream);

delegate_async_io!(LocalStream);

/// Connects to the Unix socket at `path` without waiting in a full listen queue longer than the
/// kernel does. The stream blocks.
pub fn connect_local(path: &Path) -> io::Result<std::os::unix::net::UnixStream> {
    std::os::unix::net::UnixStream::connect(short(path)?.path())
}

/// A path that fits into a socket address.
struct ShortPath {
    path: PathBuf,
    /// Keeps the directory open that `path` refers to.
    _directory: Option<std::os::fd::OwnedFd>,
}

impl ShortPath {
    fn path(&self) -> &Path {
        &self.path
    }
}

/// Shortens a long path through a descriptor of its directory.
fn short(path: &Path) -> io::Result<ShortPath> {
    use rustix::fs::{Mode, OFlags};
    use std::os::fd::AsRawFd;
    if path.as_os_str().len() <= MAX_PATH_BYTES {
        return Ok(ShortPath { path: path.to_owned(), _directory: None });
    }
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let directory = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let directory = rustix::fs::open(directory, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let path = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd())).join(name);
    Ok(ShortPath { path, _directory: Some(directory) })
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "only this crate may access the outside")]
mod tests {
    use super::*;
    use crate::TemporaryDirectory;
    use std::io::{Read, Write};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    async fn echo_once(path: &Path) {
        let listener = LocalListener::bind(path).unwrap();
        assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
        let client = {
            let path = path.to_owned();
            std::thread::spawn(move || {
                let mut stream = connect_local(&path).unwrap();
                stream.write_all(b"ping").unwrap();
                let mut answer = String::new();
                stream.read_to_string(&mut answer).unwrap();
                answer
            })
        };
        let (mut stream, user) = listener.accept().await.unwrap();
        assert!(user.is_owner_or_root());
        let mut bytes = [0; 4];
        stream.read_exact(&mut bytes).await.unwrap();
        stream.write_all(&bytes).await.unwrap();
        drop(stream);
        assert_eq!(client.join().unwrap(), "ping");
        drop(listener);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn local_socket_is_private_and_removed() {
        let directory = TemporaryDirectory::new(None, "ibid-socket").unwrap();
        echo_once(&directory.path().join("s")).await;
        // A killed process leaves its socket.
        let stale = directory.path().join("stale");
        drop(std::os::unix::net::UnixListener::bind(&stale).unwrap());
        assert!(stale.exists());
        echo_once(&stale).await;
    }

    #[tokio::test]
    async fn local_socket_path_may_be_long() {
        let directory = TemporaryDirectory::new(None, "ibid-socket").unwrap();
        let deep = directory.path().join("d".repeat(100)).join("e".repeat(100));
        crate::files::create_directory(&deep).unwrap();
        echo_once(&deep.join("socket")).await;
    }

    #[test]
    fn other_users_are_not_the_owner() {
        let own = rustix::process::geteuid().as_raw();
        assert!(LocalUser(own).is_owner_or_root());
        assert!(LocalUser(0).is_owner_or_root());
        assert!(!LocalUser(own.wrapping_add(1).max(1)).is_owner_or_root());
    }
}
