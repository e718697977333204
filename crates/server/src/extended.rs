//! The extended protocol: statements and portals by name.
//!
//! KEEPS: a portal's results come in the formats that it was bound with; portals and their parameters are bounded
//! per connection; a statement that is not known to be alone before its Sync runs in a transaction that ends
//! there.

use crate::frames::{Ended, Follows, Stream};
use crate::messages::{Bind, Target};
use crate::responses::{ROWS_AT_ONCE, row_description, send_some_rows};
use crate::values::{parameter_type, read_parameter};
use base::Datum;
use base::error::{SqlError, SqlResult, SqlState};
use pgwire::messages::PgWireBackendMessage as Out;
use pgwire::messages::data::{NoData, ParameterDescription};
use pgwire::messages::extendedquery::{BindComplete, CloseComplete, ParseComplete, PortalSuspended};
use pgwire::messages::response::CommandComplete;
use session::session::Prepared;
use session::{Response, RowStream, Rows, Session, TransactionStatus};
use std::collections::BTreeMap;
use std::sync::Arc;
use wire::format_of;

/// Portals that may be open at once, and bytes that the values of their parameters may have together.
const PORTALS_MAX: usize = 1_000;
const PARAMETER_BYTES_MAX: usize = 64 << 20;

/// Open portals by name; "" is the unnamed one.
#[derive(Default)]
pub struct Portals {
    open: BTreeMap<String, Portal>,
}

/// A bound statement.
struct Portal {
    prepared: Arc<Prepared>,
    formats: Vec<i16>,
    /// Bytes of its parameters as they came.
    bytes: usize,
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
    pub async fn parse(
        &mut self,
        session: &mut Session,
        stream: &mut Stream,
        name: String,
        sql: &str,
        types: &[u32],
    ) -> Step<()> {
        let declared = |oid: &u32| parameter_type(*oid).or_else(|| session.made_array(*oid));
        let hints: Vec<_> = types.iter().map(declared).collect();
        if name.is_empty() {
            session.forget("");
        }
        let prepared = match stream.attended(Box::pin(session.prepare(sql, &hints))).await? {
            Ok(prepared) => prepared,
            Err(error) => return Ok(Err(error)),
        };
        if let Err(error) = session.store(&name, prepared) {
            return Ok(Err(error));
        }
        stream.send(Out::ParseComplete(ParseComplete::new()))?;
        Ok(Ok(()))
    }

    pub fn bind(&mut self, session: &mut Session, stream: &mut Stream, mut bind: Bind) -> Step<()> {
        let name = std::mem::take(&mut bind.portal);
        if name.is_empty() {
            self.open.remove("");
        }
        match self.bound(session, &name, &bind) {
            Ok(portal) => {
                self.open.insert(name, portal);
                stream.send(Out::BindComplete(BindComplete::new()))?;
                Ok(Ok(()))
            }
            Err(error) => Ok(Err(error)),
        }
    }

    fn bound(&self, session: &mut Session, name: &str, bind: &Bind) -> SqlResult<Portal> {
        if self.open.contains_key(name) {
            let message = format!("cursor \"{name}\" already exists");
            return Err(SqlError::new(SqlState::DUPLICATE_CURSOR, message));
        }
        let limit = |what: &str, limit: String| {
            Err(SqlError::new(SqlState::CONFIGURATION_LIMIT_EXCEEDED, format!("too many {what}"))
                .detail(format!("One connection may have {limit}."))
                .hint("Close portals that are not needed any more, or end the transaction."))
        };
        if self.open.len() >= PORTALS_MAX {
            return limit("open portals", format!("{PORTALS_MAX} portals"));
        }
        let bytes: usize = bind.parameters.iter().flatten().map(bytes::Bytes::len).sum();
        if bytes + self.open.values().map(|p| p.bytes).sum::<usize>() > PARAMETER_BYTES_MAX {
            let bytes = format!("{PARAMETER_BYTES_MAX} bytes of parameters");
            return limit("values of parameters in open portals", bytes);
        }
        Ok(Portal { bytes, ..bind_portal(session, bind)? })
    }

    pub fn describe(&mut self, session: &mut Session, stream: &mut Stream, target: Target) -> Step<()> {
        let (prepared, formats) = match target {
            Target::Statement(name) => match session.stored(&name) {
                Ok(prepared) => {
                    let oids = prepared.parameters.iter().map(|p| p.oid()).collect();
                    stream.send(Out::ParameterDescription(ParameterDescription::new(oids)))?;
                    (prepared, Vec::new())
                }
                Err(error) => return Ok(Err(error)),
            },
            Target::Portal(name) => match self.open.get(&name) {
                Some(portal) => (portal.prepared.clone(), portal.formats.clone()),
                // Cursors are portals by another name.
                None if let Some(columns) = session.cursor_columns(&name) => {
                    stream.send(Out::RowDescription(row_description(&columns, &[])))?;
                    return Ok(Ok(()));
                }
                None => return Ok(Err(no_portal(&name))),
            },
        };
        match &prepared.columns {
            Some(columns) => stream.send(Out::RowDescription(row_description(columns, &formats)))?,
            None => stream.send(Out::NoData(NoData::new()))?,
        }
        Ok(Ok(()))
    }

    pub fn close(&mut self, session: &mut Session, stream: &mut Stream, target: Target) -> Step<()> {
        match target {
            Target::Statement(name) => session.forget(&name),
            Target::Portal(name) => drop(self.open.remove(&name)),
        }
        stream.send(Out::CloseComplete(CloseComplete::new()))?;
        Ok(Ok(()))
    }

    /// Runs a portal, or goes on with its rows, of which a limit of 0 wants all. Answers a response that the
    /// caller must send itself: anything but rows.
    pub async fn execute(
        &mut self,
        session: &mut Session,
        stream: &mut Stream,
        name: &str,
        limit: usize,
    ) -> Step<Option<Response>> {
        let Some(portal) = self.open.get_mut(name) else { return Ok(Err(no_portal(name))) };
        let mut rows = match std::mem::replace(&mut portal.state, PortalState::Done) {
            PortalState::Bound(parameters) => {
                portal.bytes = 0;
                if session.begins_pipeline(&portal.prepared) {
                    // A copy's data may come before its Sync.
                    let may_wait = !portal.prepared.is_copy();
                    if stream.follows(may_wait).await? == Follows::More {
                        session.begin_pipeline();
                    }
                }
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
        let mut count = 0;
        loop {
            let left = if limit == 0 { ROWS_AT_ONCE } else { (limit - count).min(ROWS_AT_ONCE) };
            if left == 0 {
                portal.state = PortalState::Suspended { rows };
                stream.send(Out::PortalSuspended(PortalSuspended::new()))?;
                return Ok(Ok(None));
            }
            match send_some_rows(stream, &mut rows, &portal.formats, left, session.text_look()).await? {
                Ok(0) => break,
                Ok(n) => count += n,
                Err(error) => return Ok(Err(error)),
            }
        }
        stream.send(Out::CommandComplete(CommandComplete::new(rows.complete(count as u64))))?;
        // Clients that fetch in portions ask once more, and are told that there is nothing left.
        rows.stream = RowStream::empty();
        portal.state = PortalState::Suspended { rows };
        Ok(Ok(None))
    }

    /// At Sync outside a transaction block every portal goes.
    pub fn end_of_sequence(&mut self, status: TransactionStatus) {
        if status == TransactionStatus::Idle {
            self.open.clear();
        }
    }
}

fn bind_portal(session: &mut Session, bind: &Bind) -> SqlResult<Portal> {
    let name = &bind.statement;
    let prepared = session.stored(name)?;
    let violation = |message: String| Err(SqlError::new(SqlState::PROTOCOL_VIOLATION, message));
    let (values, formats) = (bind.parameters.len(), bind.parameter_formats.len());
    if formats > 1 && formats != values {
        return violation(format!("bind message has {formats} parameter formats but {values} parameters"));
    }
    if values != prepared.parameters.len() {
        return violation(format!(
            "bind message supplies {values} parameters, but prepared statement \"{name}\" requires {}",
            prepared.parameters.len()
        ));
    }
    let (formats, columns) = (bind.result_formats.len(), prepared.columns.as_ref().map_or(0, |c| c.len()));
    if formats > 1 && formats != columns {
        return violation(format!(
            "bind message has {formats} result formats but query has {columns} columns"
        ));
    }
    let unknown = |format: &&i16| !matches!(format, 0 | 1);
    if let Some(format) = bind.parameter_formats.iter().chain(&bind.result_formats).find(unknown) {
        return Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("unsupported format code: {format}"),
        ));
    }
    let mut parameters = Vec::with_capacity(bind.parameters.len());
    for (i, (bytes, parameter)) in bind.parameters.iter().zip(&prepared.parameters).enumerate() {
        let data_type = session.type_now(*parameter);
        parameters.push(match bytes {
            None => Datum::Null,
            Some(bytes) => {
                let format = format_of(&bind.parameter_formats, i);
                sql::zones::within(session.zone(), || read_parameter(bytes, data_type, format, i + 1))?
            }
        });
    }
    let formats = bind.result_formats.clone();
    Ok(Portal { prepared, formats, bytes: 0, state: PortalState::Bound(parameters) })
}

fn no_portal(name: &str) -> SqlError {
    SqlError::new(SqlState(*b"34000"), format!("portal \"{name}\" does not exist"))
}
