//! target: see ARCHITECTURE.md.
