//! `tenure collection`.

