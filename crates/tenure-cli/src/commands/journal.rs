//! `tenure journal`.

