//! A node whose clock is wrong, or has not been compared with others' for long, fences itself: it answers nobody and
//! says nothing, until it is right again.
//!
//! KEEPS: while it is out, its engine neither hears nor says anything, so to others it is a node that is cut off; its
//! timers wait; who asks it is refused with the reason. What has begun may have been ordered: its clients are told that
//! the end is not known.

use super::*;
use crate::clocks::{ClockMonitor, Verdict};
use crate::message::ClockMessage;

/// The monitor, and whether this node is out.
pub(super) struct Watch {
    pub monitor: ClockMonitor,
    pub out: Option<SqlError>,
}

impl Watch {
    pub fn new(monitor: ClockMonitor) -> Watch {
        Watch { monitor, out: None }
    }
}

impl<E: Engine> Node<E> {
    /// Asks others for the first time.
    pub(super) fn begin_watch(&mut self, now: Time, out: &mut Effects<Self>) {
        if self.watch.is_some() {
            self.ask_time(now, out);
        }
    }

    fn ask_time(&mut self, now: Time, out: &mut Effects<Self>) {
        let Some(watch) = &mut self.watch else { return };
        watch.monitor.asks();
        let (peers, every_ns): (Vec<NodeId>, u64) =
            (watch.monitor.peers().collect(), watch.monitor.every_ns());
        for peer in peers {
            self.send(peer, Message::Clock(ClockMessage::Ask { sent_at: now }), out);
        }
        out.timer(Timer::Clock, now + every_ns);
    }

    /// Keeps to itself what is about clocks, and everything if this node is out; hands the rest on.
    pub(super) fn watch(
        &mut self,
        now: Time,
        event: Event<Self>,
        out: &mut Effects<Self>,
    ) -> Option<Event<Self>> {
        match event {
            Event::Timer(Timer::Clock) => {
                self.judge_clock(now, out);
                self.ask_time(now, out);
                return None;
            }
            Event::Message { from, message: Message::Clock(message) } => {
                match message {
                    ClockMessage::Ask { sent_at } => {
                        self.send(from, Message::Clock(ClockMessage::Tell { sent_at, there: now }), out)
                    }
                    ClockMessage::Tell { sent_at, there } => {
                        if let Some(watch) = &mut self.watch {
                            watch.monitor.answered(now, from, sent_at, there);
                        }
                        self.judge_clock(now, out);
                    }
                }
                return None;
            }
            _ => {}
        }
        let Some(Watch { out: Some(reason), monitor }) = &self.watch else { return Some(event) };
        let (reason, every_ns) = (reason.clone(), monitor.every_ns());
        match event {
            Event::Message { .. } => None,
            Event::Timer(timer) => {
                out.timer(timer, now + every_ns);
                None
            }
            Event::Request { id, request } => match refusal(&request, &reason) {
                Some(reply) => {
                    out.reply(id, reply);
                    None
                }
                None => Some(Event::Request { id, request }),
            },
            other => Some(other),
        }
    }

    fn judge_clock(&mut self, now: Time, out: &mut Effects<Self>) {
        let Some(watch) = &mut self.watch else { return };
        match (watch.monitor.verdict(now), watch.out.is_some()) {
            (Verdict::Right, true) => {
                base::sometimes!("a node whose clock is right again goes on");
                watch.out = None;
            }
            (Verdict::Wrong { by }, was_out) => {
                let reason = out_of_bound(self.id, &by, self.topology.clock_bound_ns);
                watch.out = Some(reason.clone());
                if !was_out {
                    base::sometimes!("a node takes itself out because its clock is wrong");
                    self.refuse_all(&reason, out);
                }
            }
            (Verdict::Unchecked { for_ns }, was_out) => {
                let reason = unchecked(self.id, for_ns);
                watch.out = Some(reason.clone());
                if !was_out {
                    base::sometimes!(
                        "a node takes itself out because nobody tells it whether its clock is right"
                    );
                    self.refuse_all(&reason, out);
                }
            }
            (Verdict::Right, false) => {}
        }
    }

    /// Ends what clients wait for.
    fn refuse_all(&mut self, reason: &SqlError, out: &mut Effects<Self>) {
        for id in self.reads.of_clients() {
            if let Some(read) = self.give_up(ReadId::Client(id)) {
                out.reply(id, read.refused(reason.clone()));
            }
        }
        for wish in std::mem::take(&mut self.locks.wishes).into_values() {
            out.reply(wish.request, Reply::Locked(Err(reason.clone())));
        }
        for id in self.gateway.take_all() {
            let unknown = SqlError::new(
                SqlState::TRANSACTION_RESOLUTION_UNKNOWN,
                "the outcome of the transaction is not known: its gateway has fenced itself",
            );
            let unknown = unknown.detail(reason.message.clone());
            out.reply(
                id,
                Reply::Submitted(Err(unknown.hint("Repeat it by name elsewhere, or look at the data."))),
            );
        }
    }
}

/// What a request gets while the node is fenced; `None` if it may be served all the same.
pub(super) fn refusal(request: &Request, reason: &SqlError) -> Option<Reply> {
    let reason = reason.clone();
    match request {
        Request::Submit(_) | Request::MoveHome { .. } => Some(Reply::Submitted(Err(reason))),
        Request::ReadRows(_) | Request::ReadRowsUnder { .. } | Request::Call(_) => {
            Some(Reply::Rows(Err(reason)))
        }
        Request::OpenSnapshot(_) => Some(Reply::Snapshot(Err(reason))),
        Request::Pin { .. } => Some(Reply::Pinned(Err(reason))),
        Request::LockRows(_) => Some(Reply::Locked(Err(reason))),
        Request::Unpin(_) | Request::Catalog | Request::CountRows(_) | Request::Status => None,
        Request::UnlockRows { .. } | Request::ServeLocks { .. } | Request::LockServed { .. } => None,
        Request::HandOver => None,
    }
}

fn unchecked(me: NodeId, for_ns: u64) -> SqlError {
    let message = format!("node {me} has fenced itself: it cannot compare its clock with any other");
    SqlError::new(SqlState::CANNOT_CONNECT_NOW, message)
        .detail(format!("No other node has answered for {:.1} s, and clocks drift.", for_ns as f64 / 1e9))
        .hint("Connect to another node. This one serves again as soon as another node answers it.")
}

fn out_of_bound(me: NodeId, by: &[(NodeId, i64)], bound_ns: u64) -> SqlError {
    let ms = |ns: i64| ns as f64 / MS as f64;
    let said: Vec<String> = by
        .iter()
        .map(|(node, ns)| {
            let side = if *ns > 0 { "ahead" } else { "behind" };
            format!("{node}'s is at least {:.1} ms {side}", ms(ns.abs()))
        })
        .collect();
    let message = format!("node {me} has fenced itself: its clock is not within its bound");
    SqlError::new(SqlState::CANNOT_CONNECT_NOW, message)
        .detail(format!(
            "Clocks have to be within {:.1} ms of true time; {}.",
            ms(bound_ns as i64),
            said.join(", ")
        ))
        .hint(
            "Connect to another node. This one serves again once its clock is right: check the machine's clock \
             synchronisation. SHOW CLOCKS shows what was measured.",
        )
}
