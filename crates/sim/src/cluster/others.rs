//! Who works in a cluster beside the sessions: clients that take badges, change the catalog and move homes.

use super::badges::agreement;
use super::badges::builder::Builder;
use super::badges::holder::{HolderClient, Surroundings};
use super::badges::migrator::Migrator;
use super::badges::tables::{Scope, Tables};
use super::book::SharedBook;
use super::definer::Definer;
use super::knobs::Knobs;
use super::layout::Layout;
use super::mover::Mover;
use super::run::set_up;
use crate::world::World;
use base::process::Process;
use base::rng::Rng;
use base::{NodeId, Token};
use node::request::{Reply, Request};
use std::rc::Rc;
use std::sync::Arc;

/// What each of these clients does, and the number of the first one's session.
const OPERATIONS_OF_HOLDERS: u32 = 24;
const FIRST_HOLDER: u32 = 20_000;

impl Knobs {
    /// Creates the tables; what holds them.
    pub fn set_up<P>(&self, world: &mut World<P>, layout: &Arc<Layout>) -> Token
    where
        P: Process<Request = Request, Reply = Reply> + 'static,
    {
        let token = set_up(world, layout);
        match self.tables(layout) {
            Some(tables) => agreement::set_up(world, &tables, token),
            None => token,
        }
    }
    /// The tables of badges, if there are any.
    pub fn tables(&self, layout: &Layout) -> Option<Arc<Tables>> {
        self.badges.map(|company| Arc::new(Tables::new(layout, company.usual, company.undeclared)))
    }

    /// Who changes the catalog, who moves homes and who takes badges, beside the sessions.
    pub fn add_others<P>(
        &self,
        world: &mut World<P>,
        (layout, book): (&Arc<Layout>, &SharedBook),
        (gateways, loaded): (&[NodeId], &Token),
        rng: &Rng,
    ) where
        P: Process<Request = Request, Reply = Reply>,
    {
        if let (Some(company), Some(tables)) = (self.badges, self.tables(layout)) {
            let (book, habits, gateways) = (book.clone(), self.habits.clone(), gateways.to_vec());
            let long_ns = 2 * self.active_ns / u64::from(OPERATIONS_OF_HOLDERS);
            let pause_ns_max = company.pause_ns_max.unwrap_or(long_ns);
            let given = Rc::default();
            let around = Surroundings { tables, book, habits, gateways, pause_ns_max, given };
            for nth in 0..company.holders {
                let (id, rng) = (FIRST_HOLDER + nth, rng.fork_nth("holder", u64::from(nth)));
                let loaded = loaded.clone();
                world.client(HolderClient::new(id, around.clone(), rng, OPERATIONS_OF_HOLDERS, loaded));
            }
            if company.migrations > 0 {
                let (id, rng) = (FIRST_HOLDER + company.holders, rng.fork("migrator"));
                let pause_ns_max = 2 * self.active_ns / u64::from(company.migrations);
                let (around, steps) = (Surroundings { pause_ns_max, ..around.clone() }, company.migrations);
                world.client(Migrator::new(id, around, rng, steps, loaded.clone()));
            }
            if company.builds > 0 {
                let pause_ns_max = 2 * self.active_ns / u64::from(company.builds);
                let (around, rng) = (Surroundings { pause_ns_max, ..around }, rng.fork("builder"));
                world.client(Builder::new(around, rng, company, loaded.clone()));
            }
        }
        let (layout, book, gateways) = (|| layout.clone(), || book.clone(), || gateways.to_vec());
        let pause_ns_max = |count: u32| 2 * self.active_ns / u64::from(count);
        if self.definitions > 0 {
            let steps = (self.definitions, pause_ns_max(self.definitions));
            let (rng, level) = (rng.fork("definer"), self.habits.consistency);
            world.client(Definer::new(layout(), book(), rng, gateways(), level, steps));
        }
        if self.moves > 0 {
            let (rng, pause_ns_max) = (rng.fork("mover"), pause_ns_max(self.moves));
            let mover = Mover::new(layout(), book(), rng, gateways(), self.moves, pause_ns_max);
            // What every partition has is homed with each of them.
            let movable = [Scope::Shelf, Scope::All].into_iter().filter(|_| self.badges.is_some());
            let mover = mover.and_of(movable.map(|scope| vec![scope.table(), scope.index()]));
            world.client(if self.moves_one { mover.of_one() } else { mover });
        }
    }
}
