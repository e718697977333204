//! cut
