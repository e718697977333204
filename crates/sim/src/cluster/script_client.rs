//! A client that follows a fixed list of requests, one after another: it sets a case up and looks it over
//! at the end.

use crate::world::client::{Client, ClientEffects, ClientEvent};
use base::process::Process;
use base::{NodeId, Time};
use std::cell::RefCell;
use std::rc::Rc;

/// Makes the next request from all replies so far; `None` ends.
pub type NextRequest<P> =
    Box<dyn FnMut(&[<P as Process>::Reply]) -> Option<(NodeId, <P as Process>::Request)>>;

pub struct ScriptClient<P: Process> {
    next: NextRequest<P>,
    replies: Rc<RefCell<Vec<P::Reply>>>,
    done: bool,
}

impl<P: Process> ScriptClient<P> {
    /// The client, and where its replies will be.
    pub fn new(
        next: impl FnMut(&[P::Reply]) -> Option<(NodeId, P::Request)> + 'static,
    ) -> (ScriptClient<P>, Rc<RefCell<Vec<P::Reply>>>) {
        let replies = Rc::new(RefCell::new(Vec::new()));
        (ScriptClient { next: Box::new(next), replies: replies.clone(), done: false }, replies)
    }
    /// One that asks for one thing.
    pub fn once(node: NodeId, request: P::Request) -> (ScriptClient<P>, Rc<RefCell<Vec<P::Reply>>>)
    where
        P::Request: 'static,
    {
        let mut request = Some(request);
        ScriptClient::new(move |_| request.take().map(|request| (node, request)))
    }
}

impl<P: Process> Client<P> for ScriptClient<P> {
    fn step(&mut self, _: Time, event: ClientEvent<P>, out: &mut ClientEffects<P>) {
        if let ClientEvent::Reply { reply, .. } = event {
            self.replies.borrow_mut().push(reply);
        }
        match (self.next)(&self.replies.borrow()) {
            Some((node, request)) => _ = out.ask(node, request),
            None => self.done = true,
        }
    }
    fn is_done(&self) -> bool {
        self.done
    }
}
