//! The system calls of Linux AIO (io_setup(2), `linux/aio_abi.h`).
#![allow(unsafe_code, reason = "neither rustix nor libc has these calls")]

use rustix::io::Errno;
use std::os::fd::{AsRawFd, OwnedFd};

const IOCB_CMD_PREAD: u16 = 0;
const IOCB_CMD_POLL: u16 = 5;
/// The read fails with `EAGAIN` instead of waiting for a lock or for a place in the drive's queue.
const RWF_NOWAIT: u32 = 8;

/// `struct iocb`, on machines that store the low byte first.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Request {
    data: u64,
    key: u32,
    rw_flags: u32,
    opcode: u16,
    priority: i16,
    descriptor: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    eventfd: u32,
}

const _: () = assert!(size_of::<Request>() == 64);

/// `struct io_event`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Event {
    /// The number that the request was submitted with.
    pub(super) data: u64,
    request: u64,
    /// Bytes, or an error number below zero.
    pub(super) result: i64,
    second_result: i64,
}

const _: () = assert!(size_of::<Event>() == 32);

/// A context. The thread that has opened it destroys it, after the last request has ended.
pub(super) struct Context(libc::c_ulong);

impl Context {
    /// Opens a context for this number of requests.
    pub(super) fn new(requests: usize) -> Result<Self, Errno> {
        let mut context: libc::c_ulong = 0;
        // SAFETY: the call writes the id to `context`, which is 0 as it demands.
        let outcome = unsafe { libc::syscall(libc::SYS_io_setup, requests as libc::c_uint, &raw mut context) };
        match outcome {
            0 => Ok(Self(context)),
            _ => Err(last_error()),
        }
    }

    /// Starts a read. Its completion has the number `data`. The memory at `address` must stay valid
    /// and unused until then.
    pub(super) fn read(
        &self,
        drive: &OwnedFd,
        offset: u64,
        address: u64,
        bytes: usize,
        data: u64,
    ) -> Result<(), Errno> {
        let descriptor = drive.as_raw_fd() as u32;
        self.submit(&mut Request {
            data,
            rw_flags: RWF_NOWAIT,
            opcode: IOCB_CMD_PREAD,
            descriptor,
            buffer: address,
            bytes: bytes as u64,
            offset: offset as i64,
            ..Request::default()
        })
    }

    /// Requests one completion, with the number `data`, when `descriptor` is readable.
    pub(super) fn poll(&self, descriptor: &OwnedFd, data: u64) -> Result<(), Errno> {
        self.submit(&mut Request {
            data,
            opcode: IOCB_CMD_POLL,
            descriptor: descriptor.as_raw_fd() as u32,
            buffer: libc::POLLIN as u64,
            ..Request::default()
        })
    }

    fn submit(&self, request: &mut Request) -> Result<(), Errno> {
        let mut requests = [std::ptr::from_mut(request)];
        // SAFETY: the kernel reads one pointer and the request that it points to, and writes a
        // field of the request, during the call only. The buffer of a read is the memory of
        // `Buffers`, which lives until the context is destroyed.
        let outcome = unsafe { libc::syscall(libc::SYS_io_submit, self.0, 1 as libc::c_long, requests.as_mut_ptr()) };
        match outcome {
            1 => Ok(()),
            0 => Err(Errno::AGAIN),
            _ => Err(last_error()),
        }
    }

    /// Waits for completions.
    pub(super) fn wait<'a>(&self, events: &'a mut [Event]) -> &'a [Event] {
        loop {
            let most = events.len() as libc::c_long;
            // SAFETY: the kernel writes at most `most` events to the slice, during the call only.
            let outcome = unsafe {
                let no_limit = std::ptr::null::<libc::timespec>();
                libc::syscall(libc::SYS_io_getevents, self.0, 1 as libc::c_long, most, events.as_mut_ptr(), no_limit)
            };
            match usize::try_from(outcome) {
                Ok(count) => return &events[..count],
                Err(_) if last_error() == Errno::INTR => {}
                Err(_) => panic!("io_getevents: {}", last_error()),
            }
        }
    }

    /// Destroys the context. Waits for requests under way.
    pub(super) fn destroy(&self) {
        // SAFETY: the call takes an id. A context that does not exist is an error without effect.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.0) };
    }
}

fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}
