//! REPORT SUPPORTED TASK MANAGEMENT FUNCTIONS data (SPC-4 6.36).
use crate::be::to_u8;

/// ATS, ATSS, CTSS, LURS: ABORT TASK, ABORT TASK SET, CLEAR TASK SET, LOGICAL UNIT RESET. CACAS is
/// clear because ACA is not supported, as are the queries of byte 1. TARGET WARM RESET and TARGET
/// COLD RESET are specific to iSCSI (RFC 7143 11.5.1).
const FUNCTIONS: u8 = 0x80 | 0x40 | 0x10 | 0x08;
const BASIC_BYTES: usize = 4;
const EXTENDED_BYTES: usize = 16;

/// Encodes the parameter data, before truncation to the allocation length. The extended form
/// reports no timeouts: TMFTMOV is 0.
pub fn task_management_data(extended: bool) -> Vec<u8> {
    let mut out = vec![0; if extended { EXTENDED_BYTES } else { BASIC_BYTES }];
    out[0] = FUNCTIONS;
    if extended {
        out[3] = to_u8(EXTENDED_BYTES - BASIC_BYTES);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_bytes() {
        assert_eq!(task_management_data(false), [0xd8, 0, 0, 0]);
        assert_eq!(task_management_data(true), [0xd8, 0, 0, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    }
}
