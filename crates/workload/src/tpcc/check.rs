//! The consistency conditions (clause 3.3.2) as queries that return a row for each violation.

/// One condition: its number and sentence in the standard, and a query whose every row breaks it.
#[derive(Clone, Copy, Debug)]
pub struct Condition {
    pub number: u32,
    pub says: &'static str,
    pub violations: &'static str,
}

/// Conditions 1 to 10 and 12. (11 holds only right after loading.)
pub const CONDITIONS: [Condition; 11] = [
    Condition {
        number: 1,
        says: "W_YTD = sum(D_YTD)",
        violations: "select w_id, w_ytd, sum(d_ytd) as districts from warehouse, district \
            where d_w_id = w_id group by w_id, w_ytd having w_ytd <> sum(d_ytd)",
    },
    Condition {
        number: 2,
        says: "D_NEXT_O_ID - 1 = max(O_ID) = max(NO_O_ID)",
        violations: "select d_w_id, d_id, d_next_o_id, o_max, no_max from district \
            join (select o_w_id, o_d_id, max(o_id) as o_max from orders group by o_w_id, o_d_id) o \
                on o_w_id = d_w_id and o_d_id = d_id \
            left join (select no_w_id, no_d_id, max(no_o_id) as no_max from new_order \
                group by no_w_id, no_d_id) n on no_w_id = d_w_id and no_d_id = d_id \
            where d_next_o_id - 1 <> o_max or (no_max is not null and no_max <> o_max)",
    },
    Condition {
        number: 3,
        says: "max(NO_O_ID) - min(NO_O_ID) + 1 = number of rows of the district in NEW-ORDER",
        violations: "select no_w_id, no_d_id, count(*) as found from new_order group by no_w_id, no_d_id \
            having max(no_o_id) - min(no_o_id) + 1 <> count(*)",
    },
    Condition {
        number: 4,
        says: "sum(O_OL_CNT) = number of rows of the district in ORDER-LINE",
        violations: "select o_w_id, o_d_id, announced, found from \
            (select o_w_id, o_d_id, sum(o_ol_cnt) as announced from orders group by o_w_id, o_d_id) o \
            left join (select ol_w_id, ol_d_id, count(*) as found from order_line group by ol_w_id, ol_d_id) l \
                on ol_w_id = o_w_id and ol_d_id = o_d_id \
            where found is null or announced <> found",
    },
    Condition {
        number: 5,
        says: "O_CARRIER_ID is null if and only if the order has a row in NEW-ORDER",
        violations: "select o_w_id, o_d_id, o_id, o_carrier_id, no_o_id from orders \
            full join new_order on no_w_id = o_w_id and no_d_id = o_d_id and no_o_id = o_id \
            where o_id is null or (o_carrier_id is null and no_o_id is null) \
                or (o_carrier_id is not null and no_o_id is not null)",
    },
    Condition {
        number: 6,
        says: "O_OL_CNT = number of lines of the order",
        violations: "select o_w_id, o_d_id, o_id, o_ol_cnt, found from orders \
            left join (select ol_w_id, ol_d_id, ol_o_id, count(*) as found from order_line \
                group by ol_w_id, ol_d_id, ol_o_id) l \
                on ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id \
            where found is null or o_ol_cnt <> found",
    },
    Condition {
        number: 7,
        says: "OL_DELIVERY_D is null if and only if the order's O_CARRIER_ID is",
        violations: "select ol_w_id, ol_d_id, ol_o_id, ol_number from order_line \
            join orders on o_w_id = ol_w_id and o_d_id = ol_d_id and o_id = ol_o_id \
            where (ol_delivery_d is null and o_carrier_id is not null) \
                or (ol_delivery_d is not null and o_carrier_id is null)",
    },
    Condition {
        number: 8,
        says: "W_YTD = sum(H_AMOUNT)",
        violations: "select w_id, w_ytd, paid from warehouse \
            join (select h_w_id, sum(h_amount) as paid from history group by h_w_id) h on h_w_id = w_id \
            where w_ytd <> paid",
    },
    Condition {
        number: 9,
        says: "D_YTD = sum(H_AMOUNT)",
        violations: "select d_w_id, d_id, d_ytd, paid from district \
            join (select h_w_id, h_d_id, sum(h_amount) as paid from history group by h_w_id, h_d_id) h \
                on h_w_id = d_w_id and h_d_id = d_id where d_ytd <> paid",
    },
    Condition {
        number: 10,
        says: "C_BALANCE = sum(OL_AMOUNT of delivered orders) - sum(H_AMOUNT)",
        violations: "select c_w_id, c_d_id, c_id, c_balance, delivered, paid from customer \
            join (select h_c_w_id, h_c_d_id, h_c_id, sum(h_amount) as paid from history \
                group by h_c_w_id, h_c_d_id, h_c_id) h \
                on h_c_w_id = c_w_id and h_c_d_id = c_d_id and h_c_id = c_id \
            left join (select o_w_id, o_d_id, o_c_id, sum(ol_amount) as delivered from orders \
                join order_line on ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id \
                where ol_delivery_d is not null group by o_w_id, o_d_id, o_c_id) o \
                on o_w_id = c_w_id and o_d_id = c_d_id and o_c_id = c_id \
            where c_balance <> coalesce(delivered, 0) - paid",
    },
    Condition {
        number: 12,
        says: "C_BALANCE + C_YTD_PAYMENT = sum(OL_AMOUNT of delivered orders)",
        violations: "select c_w_id, c_d_id, c_id, c_balance, c_ytd_payment, delivered from customer \
            left join (select o_w_id, o_d_id, o_c_id, sum(ol_amount) as delivered from orders \
                join order_line on ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id \
                where ol_delivery_d is not null group by o_w_id, o_d_id, o_c_id) o \
                on o_w_id = c_w_id and o_d_id = c_d_id and o_c_id = c_id \
            where c_balance + c_ytd_payment <> coalesce(delivered, 0)",
    },
];
