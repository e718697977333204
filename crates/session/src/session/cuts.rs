//! The cut that a transaction reads at.
//!
//! KEEPS: a transaction holds versions from its first cut on for as long as COMMIT will ask whether something has changed since, or
//! a cursor reads on; otherwise from the cut of its present statement on.

use super::{Session, wrong_reply};
use base::error::SqlResult;
use base::{Rank, Token};
use node::request::{PinId, Reply, Request};

impl Session {
    /// Lets go of a cut, without waiting for the node.
    pub(super) fn drop_pin(&mut self, pin: Option<(PinId, Rank)>) {
        if let Some((pin, rank)) = pin {
            self.saw(&Token::at(rank));
            self.cluster().tell(Request::Unpin(pin));
        }
    }

    /// The open transaction's cut, chosen now if there is none yet, or if its statement reads at a new one.
    pub(super) async fn pinned(&mut self) -> SqlResult<(PinId, Rank)> {
        let open = self.transaction.as_ref().expect("an open transaction");
        if let Some((pin, _)) = open.pin {
            open.check_snapshot()?;
            if !open.reading.wants_cut {
                return Ok((pin, open.cut));
            }
        }
        let request = Request::Pin { consistency: self.level(), token: self.token.clone() };
        match self.read_from_node(request).await? {
            Reply::Pinned(pin) => {
                let pin = pin?;
                let is_kept = !self.cursors.is_empty() || self.open().rests_on_its_cuts();
                let open = self.open();
                open.reading.wants_cut = false;
                if let Some(first) = open.pin.filter(|_| is_kept) {
                    // It keeps the versions that are validated, or read on.
                    open.cut = open.cut.max(pin.1);
                    open.reading.seen_at = open.cut;
                    let cut = open.cut;
                    self.drop_pin(Some(pin));
                    return Ok((first.0, cut));
                }
                let since = self.gateway.cluster.now();
                let application = self.settings.get("application_name").to_string();
                let snapshot = self.gateway.node.snapshots.hold(pin, since, &self.login.user, application);
                let open = self.open();
                open.snapshot = Some(snapshot);
                let before = open.pin.replace(pin);
                open.cut = open.cut.max(pin.1);
                open.reading.seen_at = open.cut;
                let cut = open.cut;
                self.drop_pin(before);
                Ok((pin.0, cut))
            }
            _ => Err(wrong_reply()),
        }
    }
}
