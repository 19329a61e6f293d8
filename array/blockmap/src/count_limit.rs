//! Limits of the reference count of a slot.

/// Headroom above the limit for deliberate sharing, reserved for copy-on-write of pages.
const COUNT_HEADROOM: u32 = 1 << 24;
/// The limit for deliberate sharing.
pub(crate) const MAX_SHARED: u32 = u32::MAX - COUNT_HEADROOM;

/// Returns true if the count has reached the limit for deliberate sharing.
pub(crate) fn is_near_limit(count: u32) -> bool {
    count >= MAX_SHARED
}

/// Returns true if a copy-on-write of a page could overflow the count.
pub(crate) fn is_at_limit(count: u32) -> bool {
    count >= u32::MAX - COUNT_HEADROOM / 2
}
