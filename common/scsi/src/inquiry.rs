//! INQUIRY: standard data and vital product data (SPC-4 6.6, 7.8; SBC-4 6.6).

mod designator;
mod names;
mod standard;
mod third_party_copy;
pub mod vpd;

pub use designator::{Designator, DesignatorKind, Naa, TargetPort, parse_designators};
pub use names::InquiryNames;
pub use standard::{PRODUCT, Peripheral, PortGroupSupport, STANDARD_BYTES, StandardInquiry, VENDOR};
