//! map: see ARCHITECTURE.md.
