//! initiator: see ARCHITECTURE.md.
