//! The checker on random histories: against an oracle that tries every order, and by properties.

mod plan;

mod oracle;

mod small_scope;

mod generated;
