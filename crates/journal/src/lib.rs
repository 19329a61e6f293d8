//! journal: see ARCHITECTURE.md.
