//! The extended protocol: statements and portals by name.

use crate::connection::{Ended, Stream, format_of, row_description, send_some_rows};
use crate::values::{parameter_type, read_parameter};
use base::Datum;
use base::error::{SqlError, SqlResult, SqlState};
use pgwire::messages::PgWireBackendMessage as Out;
use pgwire::messages::data::{NoData, ParameterDescription};
use pgwire::messages::extendedquery::{
    Bind, BindComplete, Close, CloseComplete, Describe, Execute, Parse, ParseComplete, PortalSuspended,
};
use pgwire::messages::response::CommandComplete;
use query::session::Prepared;
use query::{Response, RowStream, Rows, Session, TransactionStatus};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Open portals by name; "" is the unnamed one.
#[derive(Default)]
pub struct Portals {
    open: BTreeMap<String, Portal>,
}

/// A bound statement.
struct Portal {
    prepared: Arc<Prepared>,
    formats: Vec<i16>,
    state: PortalState,
}

enum PortalState {
    Bound(Vec<Datum>),
    /// Rows are left.
    Suspended {
        rows: Rows,
    },
    Done,
}

/// A sequence's inner result; the outer error ends the connection.
type Step<T> = Result<SqlResult<T>, Ended>;

impl Portals {
    pub async fn parse(&mut self, session: &mut Session, stream: &mut Stream, parse: Parse) -> Step<()> {
        let name = parse.name.unwrap_or_default();
        let hints: Vec<_> = parse.type_oids.iter().map(|oid| parameter_type(*oid)).collect();
        if name.is_empty() {
            session.forget("");
        }
        let prepared = match stream.attended(Box::pin(session.prepare(&parse.query, &hints))).await? {
            Ok(prepared) => prepared,
            Err(error) => return Ok(Err(error)),
        };
        if let Err(error) = session.store(&name, prepared) {
            return Ok(Err(error));
        }
        stream.send(Out::ParseComplete(ParseComplete::new()))?;
        Ok(Ok(()))
    }

    pub fn bind(&mut self, session: &mut Session, stream: &mut Stream, bind: Bind) -> Step<()> {
        let bound = bind_portal(session, &bind);
        match bound {
            Ok(portal) => {
                let name = bind.portal_name.unwrap_or_default();
                if !name.is_empty() && self.open.contains_key(&name) {
                    return Ok(Err(SqlError::new(
                        SqlState::DUPLICATE_CURSOR,
                        format!("cursor \"{name}\" already exists"),
                    )));
                }
                self.open.insert(name, portal);
                stream.send(Out::BindComplete(BindComplete::new()))?;
                Ok(Ok(()))
            }
            Err(error) => Ok(Err(error)),
        }
    }

    pub fn describe(&mut self, session: &mut Session, stream: &mut Stream, describe: Describe) -> Step<()> {
        let name = describe.name.unwrap_or_default();
        let (prepared, formats) = if describe.target_type == b'S' {
            match session.stored(&name) {
                Ok(prepared) => {
                    let oids = prepared.parameters.iter().map(|p| p.oid()).collect();
                    stream.send(Out::ParameterDescription(ParameterDescription::new(oids)))?;
                    (prepared, Vec::new())
                }
                Err(error) => return Ok(Err(error)),
            }
        } else {
            match self.open.get(&name) {
                Some(portal) => (portal.prepared.clone(), portal.formats.clone()),
                // Cursors are portals by another name.
                None if let Some(columns) = session.cursor_columns(&name) => {
                    stream.send(Out::RowDescription(row_description(&columns, &[])))?;
                    return Ok(Ok(()));
                }
                None => return Ok(Err(no_portal(&name))),
            }
        };
        match &prepared.columns {
            Some(columns) => stream.send(Out::RowDescription(row_description(columns, &formats)))?,
            None => stream.send(Out::NoData(NoData::new()))?,
        }
        Ok(Ok(()))
    }

    pub fn close(&mut self, session: &mut Session, stream: &mut Stream, close: Close) -> Step<()> {
        let name = close.name.unwrap_or_default();
        if close.target_type == b'S' {
            session.forget(&name);
        } else {
            self.open.remove(&name);
        }
        stream.send(Out::CloseComplete(CloseComplete::new()))?;
        Ok(Ok(()))
    }

    /// Runs a portal, or goes on with its rows. Answers a response that the caller must send itself:
    /// anything but rows.
    pub async fn execute(
        &mut self,
        session: &mut Session,
        stream: &mut Stream,
        execute: Execute,
    ) -> Step<Option<Response>> {
        let name = execute.name.unwrap_or_default();
        let Some(portal) = self.open.get_mut(&name) else { return Ok(Err(no_portal(&name))) };
        let mut rows = match std::mem::replace(&mut portal.state, PortalState::Done) {
            PortalState::Bound(parameters) => {
                match stream.attended(Box::pin(session.execute(&portal.prepared, parameters))).await? {
                    Ok(Response::Rows(rows)) => rows,
                    Ok(response) => return Ok(Ok(Some(response))),
                    Err(error) => return Ok(Err(error)),
                }
            }
            PortalState::Suspended { rows } => rows,
            PortalState::Done => {
                return Ok(Err(SqlError::new(
                    SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                    format!("portal \"{name}\" cannot be run"),
                )));
            }
        };
        let limit = usize::try_from(execute.max_rows).unwrap_or(0);
        let mut count = 0;
        loop {
            let left = if limit == 0 { 256 } else { (limit - count).min(256) };
            if left == 0 {
                portal.state = PortalState::Suspended { rows };
                stream.send(Out::PortalSuspended(PortalSuspended::new()))?;
                return Ok(Ok(None));
            }
            match send_some_rows(stream, &mut rows, &portal.formats, left).await? {
                Ok(0) => break,
                Ok(n) => count += n,
                Err(error) => return Ok(Err(error)),
            }
        }
        stream.send(Out::CommandComplete(CommandComplete::new(rows.complete(count as u64))))?;
        // Clients that fetch in portions ask once more, and are told that there is nothing left.
        if limit > 0 {
            rows.stream = RowStream::empty();
            portal.state = PortalState::Suspended { rows };
        }
        Ok(Ok(None))
    }

    /// At Sync outside a transaction block every portal goes.
    pub fn end_of_sequence(&mut self, status: TransactionStatus) {
        if status == TransactionStatus::Idle {
            self.open.clear();
        }
    }
}

fn bind_portal(session: &Session, bind: &Bind) -> SqlResult<Portal> {
    let name = bind.statement_name.as_deref().unwrap_or_default();
    let prepared = session.stored(name)?;
    if bind.parameters.len() != prepared.parameters.len() {
        return Err(SqlError::new(
            SqlState::PROTOCOL_VIOLATION,
            format!(
                "bind message supplies {} parameters, but prepared statement \"{name}\" requires {}",
                bind.parameters.len(),
                prepared.parameters.len()
            ),
        ));
    }
    let mut parameters = Vec::with_capacity(bind.parameters.len());
    for (i, (bytes, data_type)) in bind.parameters.iter().zip(&prepared.parameters).enumerate() {
        parameters.push(match bytes {
            None => Datum::Null,
            Some(bytes) => {
                read_parameter(bytes, *data_type, format_of(&bind.parameter_format_codes, i), i + 1)?
            }
        });
    }
    let formats = bind.result_column_format_codes.clone();
    Ok(Portal { prepared, formats, state: PortalState::Bound(parameters) })
}

fn no_portal(name: &str) -> SqlError {
    SqlError::new(SqlState(*b"34000"), format!("portal \"{name}\" does not exist"))
}
