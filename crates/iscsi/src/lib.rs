//! iscsi: see ARCHITECTURE.md.
