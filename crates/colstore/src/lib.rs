//! colstore
