//! rest: see ARCHITECTURE.md.
