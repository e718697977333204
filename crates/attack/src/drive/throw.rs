//! Throwing one input, and judging what came back.

use super::{Run, Suspicion};
use crate::client::{Connection, Reply};
use crate::input::{Input, Step};
use crate::judge::{self, Kind, Verdict};
use std::time::Duration;

/// Silent connections that are held open at a time.
const HELD_MAX: usize = 40;
/// How long it may take until the watching thread knows that the process has ended.
const KNOWN: Duration = Duration::from_millis(60);

/// What came of one input.
#[derive(Default)]
pub(super) struct Thrown {
    pub verdict: Option<Verdict>,
    pub answered: u64,
    pub refused: u64,
    /// The connection itself was refused, with a reason.
    pub turned_away: u64,
}

impl Run {
    /// Throws what the phase asks for, until the run ends.
    pub(super) async fn work(&self, worker: usize) {
        while !self.target.is_stopping() {
            let open = self.gate.read().await;
            let Some((name, phase)) = self.supply.draw() else {
                drop(open);
                tokio::time::sleep(Duration::from_millis(5)).await;
                continue;
            };
            if self.target.is_down() {
                drop(open);
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            }
            let input = self.supply.input(name);
            if self.findings.is_set_aside(&input.shape) {
                drop(open);
                tokio::task::yield_now().await;
                continue;
            }
            self.trail.begins(worker, name);
            let thrown = self.throw(&input).await;
            self.trail.ends(worker);
            self.tally.threw(phase, &thrown);
            drop(open);
            if let Some(verdict) = thrown.verdict {
                // Received as long as the run goes on.
                _ = self.suspicions.send(Suspicion { verdict, suspects: vec![name] });
            }
        }
    }

    /// One input over a connection of its own. What a server that ended says is not judged.
    pub(super) async fn throw(&self, input: &Input) -> Thrown {
        let life = self.target.life();
        let mut thrown = Thrown::default();
        self.throw_steps(input, &mut thrown).await;
        let suspicious =
            thrown.verdict.as_ref().is_some_and(|v| v.kind == Kind::Lost || v.kind == Kind::Silence);
        if suspicious {
            tokio::time::sleep(KNOWN).await;
        }
        if self.target.life() != life || self.target.is_down() {
            thrown.verdict = None;
        }
        thrown
    }

    async fn throw_steps(&self, input: &Input, thrown: &mut Thrown) {
        let patience = self.options.patience;
        let ceiling = patience.ceiling;
        let Some(address) = self.target.address(0) else { return };
        let mut session: Option<Connection> = None;
        for step in &input.steps {
            if let Step::First(text) | Step::Silent(text) = step {
                let Ok(mut connection) = Connection::open(address).await else { return };
                if matches!(step, Step::Silent(_)) {
                    connection.send(&text.bytes()).await;
                    let mut held = self.held.lock().expect("no panic while it is held");
                    held.push_back(connection);
                    if held.len() > HELD_MAX {
                        held.pop_front();
                    }
                    continue;
                }
                let reply = connection.bytes(&text.bytes(), ceiling).await;
                thrown.count(&reply, judge::bytes(&reply, patience));
                continue;
            }
            if session.is_none() {
                match Connection::greeted(address).await {
                    Ok(Ok(mut greeted)) => {
                        let set = format!("set statement_timeout = {}", patience.statement.as_millis());
                        greeted.query(set.as_bytes(), ceiling).await;
                        session = Some(greeted);
                    }
                    Ok(Err(reply)) => {
                        thrown.turned_away += 1;
                        thrown.verdict = thrown.verdict.take().or(judge::statement(&reply, patience));
                        return;
                    }
                    Err(_) => return,
                }
            }
            let connection = session.as_mut().expect("greeted above");
            let reply = match step {
                Step::Query(sql) => connection.query(&sql.bytes(), ceiling).await,
                Step::Execute(sql, parameters) => {
                    let parameters: Vec<_> =
                        parameters.iter().map(|p| p.as_ref().map(|t| t.bytes())).collect();
                    connection.execute(&sql.bytes(), &parameters, ceiling).await
                }
                Step::Copy(sql, data) => connection.copy(&sql.bytes(), &data.bytes(), ceiling).await,
                Step::Bytes(text) => {
                    let reply = connection.bytes(&text.bytes(), ceiling).await;
                    thrown.count(&reply, judge::bytes(&reply, patience));
                    session = None;
                    continue;
                }
                Step::First(_) | Step::Silent(_) => unreachable!("handled above"),
            };
            let mut verdict = judge::statement(&reply, patience);
            // An input may have changed the time limit itself.
            if verdict.as_ref().is_some_and(|v| v.kind == Kind::Late)
                && input.to_string().contains("statement_timeout")
            {
                verdict = None;
            }
            thrown.count(&reply, verdict);
            if reply.end != crate::client::End::Ready {
                // Later steps mean nothing without the session.
                return;
            }
        }
    }
}

impl Thrown {
    fn count(&mut self, reply: &Reply, verdict: Option<Verdict>) {
        self.answered += 1;
        self.refused += u64::from(!reply.errors.is_empty());
        self.verdict = self.verdict.take().or(verdict);
    }
}
