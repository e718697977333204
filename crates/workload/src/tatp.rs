//! TATP, the telecommunication application transaction processing benchmark (version 1.0): a home location register of
//! subscribers; four of five transactions read.
//!
//! Two things differ from the description. Updates name a subscriber by its key, where the benchmark looks it up by its
//! number first. And one client has subscribers of its own for [`Op::UpdateLocation`], whose locations it makes grow: so a
//! reader can tell a location that is out of date.

use crate::random::{a_string, nurand};
use crate::table::{Home, TableSpec, columns};
use base::Datum;
use base::rng::Rng;

columns!(subscriber {
    S_ID: BIGINT,
    SUB_NBR: varchar(15),
    BIT_1: INTEGER,
    BIT_2: INTEGER,
    BIT_3: INTEGER,
    BIT_4: INTEGER,
    BIT_5: INTEGER,
    BIT_6: INTEGER,
    BIT_7: INTEGER,
    BIT_8: INTEGER,
    BIT_9: INTEGER,
    BIT_10: INTEGER,
    HEX_1: INTEGER,
    HEX_2: INTEGER,
    HEX_3: INTEGER,
    HEX_4: INTEGER,
    HEX_5: INTEGER,
    HEX_6: INTEGER,
    HEX_7: INTEGER,
    HEX_8: INTEGER,
    HEX_9: INTEGER,
    HEX_10: INTEGER,
    BYTE2_1: INTEGER,
    BYTE2_2: INTEGER,
    BYTE2_3: INTEGER,
    BYTE2_4: INTEGER,
    BYTE2_5: INTEGER,
    BYTE2_6: INTEGER,
    BYTE2_7: INTEGER,
    BYTE2_8: INTEGER,
    BYTE2_9: INTEGER,
    BYTE2_10: INTEGER,
    MSC_LOCATION: BIGINT,
    VLR_LOCATION: BIGINT,
});
columns!(access_info {
    AI_S_ID: BIGINT,
    AI_TYPE: INTEGER,
    DATA1: INTEGER,
    DATA2: INTEGER,
    DATA3: varchar(3),
    DATA4: varchar(5),
});
columns!(special_facility {
    SF_S_ID: BIGINT,
    SF_TYPE: INTEGER,
    IS_ACTIVE: INTEGER,
    ERROR_CNTRL: INTEGER,
    DATA_A: INTEGER,
    DATA_B: varchar(5),
});
columns!(call_forwarding {
    CF_S_ID: BIGINT,
    CF_SF_TYPE: INTEGER,
    START_TIME: INTEGER,
    END_TIME: INTEGER,
    NUMBERX: varchar(15),
});

/// `subscriber (s_id, sub_nbr, bit_1, …, vlr_location)`.
pub const SUBSCRIBER: TableSpec = TableSpec {
    name: "subscriber",
    columns: subscriber::COLUMNS,
    primary_key: &["s_id"],
    nullable: &[],
    indexes: &[],
    home: Home::By("s_id"),
};
/// One to four a subscriber.
pub const ACCESS_INFO: TableSpec = TableSpec {
    name: "access_info",
    columns: access_info::COLUMNS,
    primary_key: &["ai_s_id", "ai_type"],
    nullable: &[],
    indexes: &[],
    home: Home::By("ai_s_id"),
};
/// One to four a subscriber.
pub const SPECIAL_FACILITY: TableSpec = TableSpec {
    name: "special_facility",
    columns: special_facility::COLUMNS,
    primary_key: &["sf_s_id", "sf_type"],
    nullable: &[],
    indexes: &[],
    home: Home::By("sf_s_id"),
};
/// None to three a special facility.
pub const CALL_FORWARDING: TableSpec = TableSpec {
    name: "call_forwarding",
    columns: call_forwarding::COLUMNS,
    primary_key: &["cf_s_id", "cf_sf_type", "start_time"],
    nullable: &[],
    indexes: &[],
    home: Home::By("cf_s_id"),
};
/// All tables.
pub const TABLES: [&TableSpec; 4] = [&SUBSCRIBER, &ACCESS_INFO, &SPECIAL_FACILITY, &CALL_FORWARDING];

/// Hours at which calls begin to be forwarded.
pub const STARTS: [i64; 3] = [0, 8, 16];

/// The size of one database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tatp {
    /// Subscribers are 1 to this.
    pub subscribers: i64,
    pub seed: u64,
}

impl Tatp {
    /// Rows to begin with, each with the name of its table.
    pub fn rows(&self) -> impl Iterator<Item = (&'static str, Vec<Datum>)> + use<> {
        let rng = Rng::new(self.seed).fork("tatp");
        (1..=self.subscribers).flat_map(move |s_id| rows_of(s_id, rng.fork_nth("subscriber", s_id as u64)))
    }
}

fn rows_of(s_id: i64, mut rng: Rng) -> Vec<(&'static str, Vec<Datum>)> {
    let rng = &mut rng;
    let mut row = vec![Datum::Int(s_id), Datum::text(number(s_id))];
    for (count, most) in [(10, 1), (10, 15), (10, 255)] {
        row.extend((0..count).map(|_| Datum::Int(rng.between(0, most))));
    }
    // Locations count from zero up.
    row.extend([Datum::Int(rng.between(1, i64::from(u32::MAX))), Datum::Int(0)]);
    let mut rows = vec![(SUBSCRIBER.name, row)];
    for ai_type in kinds(rng) {
        let data = [s_id, ai_type, rng.between(0, 255), rng.between(0, 255)].map(Datum::Int);
        let text = [3, 5].map(|length| Datum::from(a_string(rng, length, length)));
        rows.push((ACCESS_INFO.name, data.into_iter().chain(text).collect()));
    }
    for sf_type in kinds(rng) {
        let is_active = i64::from(rng.chance(0.85));
        let data = [s_id, sf_type, is_active, rng.between(0, 255), rng.between(0, 255)].map(Datum::Int);
        let text = Datum::from(a_string(rng, 5, 5));
        rows.push((SPECIAL_FACILITY.name, data.into_iter().chain([text]).collect()));
        let forwards = rng.between(0, 3) as usize;
        let forwarding = |start: &i64| {
            let end = start + rng.between(1, 8);
            (CALL_FORWARDING.name, forwarding(s_id, sf_type, *start, end, rng.between(1, s_id)))
        };
        rows.extend(STARTS[..forwards].iter().map(forwarding));
    }
    rows
}

/// The kinds that a subscriber has: the first one to four.
fn kinds(rng: &mut Rng) -> std::ops::RangeInclusive<i64> {
    1..=rng.between(1, 4)
}

/// A subscriber's number, of 15 digits.
pub fn number(s_id: i64) -> String {
    format!("{s_id:015}")
}

/// A row of [`CALL_FORWARDING`] that leads to another subscriber.
pub fn forwarding(s_id: i64, sf_type: i64, start: i64, end: i64, to: i64) -> Vec<Datum> {
    let mut row = [s_id, sf_type, start, end].map(Datum::Int).to_vec();
    row.push(Datum::text(number(to)));
    row
}

/// One transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    GetSubscriberData {
        s_id: i64,
    },
    /// Numbers to which calls are forwarded at this hour, if the facility is active.
    GetNewDestination {
        s_id: i64,
        sf_type: i64,
        hour: i64,
    },
    GetAccessData {
        s_id: i64,
        ai_type: i64,
    },
    UpdateSubscriberData {
        s_id: i64,
        bit_1: i64,
        sf_type: i64,
        data_a: i64,
    },
    UpdateLocation {
        s_id: i64,
        vlr_location: i64,
    },
    /// Takes no effect if calls are forwarded at this hour already.
    InsertCallForwarding {
        s_id: i64,
        sf_type: i64,
        start: i64,
        end: i64,
        to: i64,
    },
    DeleteCallForwarding {
        s_id: i64,
        sf_type: i64,
        start: i64,
    },
}

impl Op {
    pub fn is_read(&self) -> bool {
        matches!(self, Op::GetSubscriberData { .. } | Op::GetNewDestination { .. } | Op::GetAccessData { .. })
    }
}

/// The endless list of one client's transactions.
#[derive(Clone, Debug)]
pub struct Ops {
    tatp: Tatp,
    rng: Rng,
    /// Its number, and how many clients there are.
    nth: (i64, i64),
    location: i64,
}

impl Ops {
    /// The `client`-th (from 0) of `clients`; no more of them than subscribers.
    pub fn new(tatp: Tatp, (client, clients): (u32, u32)) -> Ops {
        assert!(client < clients && i64::from(clients) <= tatp.subscribers, "client {client} of {clients}");
        let rng = Rng::new(tatp.seed).fork_nth("tatp client", u64::from(client));
        Ops { tatp, rng, nth: (i64::from(client), i64::from(clients)), location: 0 }
    }
    /// The next one, in the benchmark's mix.
    pub fn next_op(&mut self) -> Op {
        let s_id = nurand(&mut self.rng, 65_535, 0, 1, self.tatp.subscribers);
        let rng = &mut self.rng;
        let (sf_type, ai_type) = (rng.between(1, 4), rng.between(1, 4));
        let start = *rng.pick(&STARTS);
        match rng.below(100) {
            0..35 => Op::GetSubscriberData { s_id },
            35..45 => Op::GetNewDestination { s_id, sf_type, hour: rng.between(0, 23) },
            45..80 => Op::GetAccessData { s_id, ai_type },
            80..82 => {
                let (bit_1, data_a) = (rng.between(0, 1), rng.between(0, 255));
                Op::UpdateSubscriberData { s_id, bit_1, sf_type, data_a }
            }
            82..96 => {
                self.location += 1;
                let (nth, of) = self.nth;
                let own = (self.tatp.subscribers - nth).div_euclid(of).max(1);
                let s_id = rng.below(own as u64) as i64 * of + nth + 1;
                Op::UpdateLocation { s_id, vlr_location: self.location }
            }
            96..98 => {
                let (end, to) = (start + rng.between(1, 8), rng.between(1, self.tatp.subscribers));
                Op::InsertCallForwarding { s_id, sf_type, start, end, to }
            }
            _ => Op::DeleteCallForwarding { s_id, sf_type, start },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    const SMALL: Tatp = Tatp { subscribers: 1_000, seed: 7 };

    #[test]
    fn rows_fit_their_tables_and_their_keys_are_unique() {
        let mut keys = BTreeSet::new();
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for (name, row) in SMALL.rows() {
            let spec = TABLES.iter().find(|spec| spec.name == name).unwrap();
            assert_eq!(row.len(), spec.columns.len());
            let key: Vec<i64> = spec.primary_key.iter().map(|c| row[spec.column(c)].int()).collect();
            assert!(keys.insert((name, key)), "{name} {row:?}");
            *counts.entry(name).or_default() += 1;
        }
        assert_eq!(counts["subscriber"], 1_000);
        // 2.5 of each on average, and 1.5 forwardings a facility.
        for name in ["access_info", "special_facility"] {
            assert!((2_300..2_700).contains(&counts[name]), "{counts:?}");
        }
        assert!((3_300..4_200).contains(&counts["call_forwarding"]), "{counts:?}");
    }

    #[test]
    fn four_of_five_read_and_locations_grow_at_one_client_each() {
        let mut writers: BTreeMap<i64, (u32, i64)> = BTreeMap::new();
        let mut reads = 0;
        for client in 0..7 {
            let mut ops = Ops::new(SMALL, (client, 7));
            for _ in 0..3_000 {
                let op = ops.next_op();
                reads += usize::from(op.is_read());
                if let Op::UpdateLocation { s_id, vlr_location } = op {
                    assert!((1..=1_000).contains(&s_id));
                    let before = writers.insert(s_id, (client, vlr_location));
                    assert!(before.is_none_or(|(by, last)| by == client && last < vlr_location), "{s_id}");
                }
            }
        }
        assert!((16_500..17_100).contains(&reads), "{reads} of 21,000 read");
    }
}
