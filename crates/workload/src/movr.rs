//! MovR, the sharing of vehicles, with homes (Caerus §5.2): users live in a region and travel, to close ones with
//! probability P_c and to far ones with P_f; vehicles and rides belong to where they are.
//!
//! Only `BeginRide` touches what is homed in two places: its user's row at home, the vehicle's row and the new
//! ride where the vehicle is. A home is a city: several make up a region. KEEPS: a vehicle's row counts its rides
//! and a user's row the ones it has begun, so rows of `rides`, counts of vehicles and counts of users agree at
//! every transactionally consistent cut. A vehicle that is taken again ends the ride before: nothing aborts.

use crate::table::{Home, TableSpec, columns};
use crate::whole_rows::{Change, Stored, Touch, Values, WholeRows};
use base::Datum;
use base::error::{SqlError, SqlResult, SqlState};
use base::rng::Rng;
use base::txn::procedure::Procedures;

columns!(users { U_HOME: BIGINT, U_ID: BIGINT, U_RIDES: BIGINT, U_LAST_HOME: BIGINT, U_LAST_RIDE: BIGINT });
columns!(vehicles { V_HOME: BIGINT, V_ID: BIGINT, V_RIDES: BIGINT, V_USER_HOME: BIGINT, V_USER: BIGINT });
columns!(rides { R_HOME: BIGINT, R_ID: BIGINT, R_VEHICLE: BIGINT, R_USER_HOME: BIGINT, R_USER: BIGINT });

/// `users (u_home, u_id, …)`.
pub const USERS: TableSpec = TableSpec {
    name: "users",
    columns: users::COLUMNS,
    primary_key: &["u_home", "u_id"],
    nullable: &[],
    indexes: &[],
    home: Home::By("u_home"),
};
/// `vehicles (v_home, v_id, …)`.
pub const VEHICLES: TableSpec = TableSpec {
    name: "vehicles",
    columns: vehicles::COLUMNS,
    primary_key: &["v_home", "v_id"],
    nullable: &[],
    indexes: &[],
    home: Home::By("v_home"),
};
/// `rides (r_home, r_id, …)`; where the vehicle is.
pub const RIDES: TableSpec = TableSpec {
    name: "rides",
    columns: rides::COLUMNS,
    primary_key: &["r_home", "r_id"],
    nullable: &[],
    indexes: &[],
    home: Home::By("r_home"),
};
/// All tables.
pub const TABLES: [&TableSpec; 3] = [&USERS, &VEHICLES, &RIDES];

/// Sizes of one database. The paper's: 4,000,000 users and 40,000 vehicles.
#[derive(Clone, Debug, PartialEq)]
pub struct Movr {
    /// Homes are 1 to this.
    pub homes: i64,
    pub users_per_home: i64,
    pub vehicles_per_home: i64,
}

impl Movr {
    /// Rows to begin with, each with the name of its table; there are no rides.
    pub fn rows(&self) -> impl Iterator<Item = (&'static str, Vec<Datum>)> + use<> {
        let (users, vehicles) = (self.users_per_home, self.vehicles_per_home);
        let row = |home, id| [home, id, 0, 0, 0].map(Datum::Int).to_vec();
        (1..=self.homes).flat_map(move |home| {
            let users = (1..=users).map(move |id| (USERS.name, row(home, id)));
            users.chain((1..=vehicles).map(move |id| (VEHICLES.name, row(home, id))))
        })
    }
}

/// The endless list of rides that users of some homes begin.
#[derive(Clone, Debug)]
pub struct Inputs {
    pub movr: Movr,
    /// Where its users live.
    pub own: Vec<i64>,
    /// Homes in the region of `own`, in close regions and in far ones.
    pub here: Vec<i64>,
    pub close: Vec<i64>,
    pub far: Vec<i64>,
    /// Probability that a user is in a close region, and in a far one.
    pub travels: (f64, f64),
    /// Next ride's number, and the distance to the one after it: lists of one run must not meet.
    pub ride: (i64, i64),
    pub rng: Rng,
}

impl Inputs {
    /// Name and arguments of the next call.
    pub fn next_call(&mut self) -> (&'static str, Vec<Datum>) {
        let rng = &mut self.rng;
        let user_home = *rng.pick(&self.own);
        let user = rng.between(1, self.movr.users_per_home);
        let (to_close, to_far) = self.travels;
        let drawn = rng.below(1_000_000) as f64 / 1e6;
        let list = match drawn {
            _ if drawn < to_far && !self.far.is_empty() => &self.far,
            _ if drawn < to_far + to_close && !self.close.is_empty() => &self.close,
            _ => &self.here,
        };
        let home = *rng.pick(list);
        let vehicle = rng.between(1, self.movr.vehicles_per_home);
        let ride = self.ride.0;
        self.ride.0 += self.ride.1;
        (BeginRide.name(), [user_home, user, home, vehicle, ride].map(Datum::Int).to_vec())
    }
}

/// `CALL movr_begin_ride(user_home, user, home, vehicle, ride)`.
pub struct BeginRide;

impl WholeRows for BeginRide {
    fn name(&self) -> &'static str {
        "movr_begin_ride"
    }
    fn arguments(&self) -> &'static [&'static str] {
        &["user_home", "user", "home", "vehicle", "ride"]
    }
    fn touches(&self, args: &[i64]) -> Vec<Touch> {
        let [user_home, user, home, vehicle, ride] = args else { unreachable!("arguments are counted") };
        vec![
            Touch::write(&USERS, &[*user_home, *user]),
            Touch::write(&VEHICLES, &[*home, *vehicle]),
            Touch::write(&RIDES, &[*home, *ride]),
        ]
    }
    fn check(&self, args: &[i64], nth: usize, rows: &[Values]) -> SqlResult<()> {
        let (state, message) = match (nth, rows.len()) {
            (0, 0) => (SqlState::FOREIGN_KEY_VIOLATION, format!("there is no user {}", args[1])),
            (1, 0) => (SqlState::FOREIGN_KEY_VIOLATION, format!("there is no vehicle {}", args[3])),
            (2, 1..) => (SqlState::UNIQUE_VIOLATION, format!("ride {} has begun before", args[4])),
            _ => return Ok(()),
        };
        Err(SqlError::new(state, message))
    }
    fn changes(&self, args: &[i64], rows: &[Vec<Values>]) -> Vec<Change> {
        let [user_home, user, home, vehicle, ride] = args else { unreachable!("arguments are counted") };
        let mut rider = rows[0][0].clone();
        rider[users::U_RIDES] += 1;
        (rider[users::U_LAST_HOME], rider[users::U_LAST_RIDE]) = (*home, *ride);
        let mut taken = rows[1][0].clone();
        taken[vehicles::V_RIDES] += 1;
        (taken[vehicles::V_USER_HOME], taken[vehicles::V_USER]) = (*user_home, *user);
        let begun = vec![*home, *ride, *vehicle, *user_home, *user];
        vec![Change::Put(&USERS, rider), Change::Put(&VEHICLES, taken), Change::Put(&RIDES, begun)]
    }
}

pub fn register(procedures: &mut Procedures) {
    procedures.register(Stored(BeginRide));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Model;
    use crate::table::Placement;
    use base::schema::{Catalog, SchemaAction, SchemaChange};
    use base::topology::Topology;
    use base::wan::Wan;
    use std::collections::BTreeMap;

    fn model(movr: &Movr) -> Model {
        let topology = Topology::one_node_per_region(Wan::uniform("two", &["us", "eu"], 1, 100), 2);
        let placement = Placement::RoundRobin(topology.wan.regions.clone());
        let mut catalog = Catalog::default();
        for spec in TABLES {
            let table = spec.describe(&placement, movr.homes as u32, &topology, catalog.next_id);
            let actions = vec![SchemaAction::CreateTable(table)];
            catalog
                .apply(&SchemaChange { database: Default::default(), base_version: catalog.version, actions })
                .unwrap();
        }
        let mut model = Model::new(catalog, topology);
        for (name, row) in movr.rows() {
            let id = model.catalog.require(name).unwrap().id;
            model.insert(id, &row);
        }
        model
    }

    #[test]
    fn rides_are_counted_where_they_begin_and_where_their_users_live() {
        let movr = Movr { homes: 6, users_per_home: 10, vehicles_per_home: 3 };
        let mut model = model(&movr);
        let procedures = crate::procedures();
        let mut inputs = Inputs {
            movr: movr.clone(),
            own: vec![1, 3],
            here: vec![1, 3, 5],
            close: vec![2],
            far: vec![4, 6],
            travels: (0.2, 0.1),
            ride: (7, 3),
            rng: Rng::new(1),
        };
        let mut by_home: BTreeMap<i64, i64> = BTreeMap::new();
        for _ in 0..1000 {
            let (name, args) = inputs.next_call();
            *by_home.entry(args[2].int()).or_default() += 1;
            model.call(&**procedures.get(name).unwrap(), &args).unwrap();
        }
        assert!((150..250).contains(&by_home[&2]), "{by_home:?}");
        assert!((60..140).contains(&(by_home[&4] + by_home[&6])), "{by_home:?}");
        let sum =
            |table, column: usize| -> i64 { model.rows(table).iter().map(|row| row[column].int()).sum() };
        assert_eq!(sum("users", users::U_RIDES), 1000);
        assert_eq!(sum("vehicles", vehicles::V_RIDES), 1000);
        assert_eq!(model.rows("rides").len(), 1000);
        assert!(model.rows("users").iter().all(|row| [1, 3].contains(&row[0].int()) || row[2].int() == 0));
    }

    #[test]
    fn whoever_or_whatever_is_not_there_begins_no_ride() {
        let mut model = model(&Movr { homes: 2, users_per_home: 1, vehicles_per_home: 1 });
        let procedures = crate::procedures();
        let begin = procedures.get("movr_begin_ride").unwrap();
        let mut call = |args: [i64; 5]| {
            let args = args.map(Datum::Int).to_vec();
            model.call(&**begin, &args).map_err(|error| error.state.as_str().to_string()).map(|_| ())
        };
        assert_eq!(call([1, 2, 2, 1, 1]), Err("23503".into()));
        assert_eq!(call([1, 1, 2, 2, 1]), Err("23503".into()));
        assert_eq!(call([1, 1, 2, 1, 1]), Ok(()));
        assert_eq!(call([1, 1, 2, 1, 1]), Err("23505".into()));
    }
}
