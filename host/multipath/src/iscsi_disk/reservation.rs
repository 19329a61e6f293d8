//! The reservation of a host.

use scsi::Asc;

/// The reservation of this host. SCSI-2 reservations belong to a nexus (SPC-2 5.5.1), here a path:
/// while one is held, only that path is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reservation {
    None,
    Held(usize),
    /// The reservation was lost with its path. The host must not write until it releases or
    /// reserves again, because it assumes exclusive access.
    Lost,
}

impl Reservation {
    /// Forgets a lost reservation before a new one is requested.
    pub(super) fn forget_if_lost(&mut self) {
        if *self == Self::Lost {
            *self = Self::None;
        }
    }
}

/// Returns true for a reset or lost nexus (29h), and for reservations preempted or released by
/// another host (2Ah/03h and 04h).
pub(super) fn reports_lost_reservation(asc: Asc) -> bool {
    asc.code() == 0x29 || matches!((asc.code(), asc.qualifier()), (0x2a, 3 | 4))
}
