//! SQL without execution: text to statements, names and types, lowering to what a node executes, DDL.
//!
//! IN: texts, a version of the catalog, types of parameters. OUT: programs, access sets, key ranges, changes of the catalog.
//! KEEPS: no query is executed here, and nothing here knows a node, DataFusion or a session; what takes long looks
//! now and then whether its statement has to end ([`interrupt`]).

pub mod aggregates;
pub mod arrays;
pub mod calls;
pub mod cancel;
pub mod catalog;
pub mod ddl;
pub mod defects;
pub mod document_triggers;
pub mod generators;
pub mod given;
pub mod interrupt;
pub mod json;
pub mod lower;
pub mod materialized;
pub mod names;
pub mod networks;
pub mod panics;
pub mod parse;
pub mod partitions;
pub mod places;
pub mod privileges;
pub mod routines;
pub mod spans;
pub mod temporary;
pub mod text_search;
pub mod triggers;
pub mod types;
pub mod user_types;
pub mod views;
pub mod volatile;
pub mod walk;
pub mod with;
pub mod zones;
