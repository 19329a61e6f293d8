//! Standard output of the program.
//! The reader may close the pipe early (`| head`): that does not stop the verb, for example a clone
//! in progress. Any other write error, such as a full disk, is reported when the verb ends.

use crate::failure::Failure;
use std::fmt;
use std::io::{ErrorKind, Write};
use std::sync::OnceLock;

/// The first write error other than a closed pipe.
static FIRST_ERROR: OnceLock<String> = OnceLock::new();

/// Writes to standard output; use the macros [`out!`] and [`outln!`].
/// Returns false if the write failed, for callers whose only purpose is their output.
pub(crate) fn write_args(what: fmt::Arguments<'_>) -> bool {
    let mut stdout = std::io::stdout().lock();
    let said = stdout.write_fmt(what).and_then(|()| stdout.flush());
    if let Err(error) = &said
        && error.kind() != ErrorKind::BrokenPipe
    {
        // Later errors are ignored: the first one names the cause.
        let _ = FIRST_ERROR.set(error.to_string());
    }
    said.is_ok()
}

/// Fails if output was lost for a reason other than a closed pipe.
pub(crate) fn check() -> Result<(), Failure> {
    FIRST_ERROR.get().map_or(Ok(()), |error| Err(Failure::Wrong(format!("standard output: {error}"))))
}

/// Prints formatted text to standard output.
macro_rules! out {
    ($($arg:tt)*) => { $crate::out::write_args(format_args!($($arg)*)) };
}

/// Prints a formatted line to standard output.
macro_rules! outln {
    ($($arg:tt)*) => { $crate::out::write_args(format_args!("{}\n", format_args!($($arg)*))) };
}

pub(crate) use {out, outln};
