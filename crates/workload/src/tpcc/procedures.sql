-- The five transactions of TPC-C in PL/pgSQL. Arguments are those of Meridian's own procedures of the same
-- names; results come back through INOUT parameters, which a caller leaves out.

CREATE OR REPLACE PROCEDURE new_order(
    p_w integer, p_d integer, p_c integer, p_lines text, p_now timestamp,
    INOUT o_id integer DEFAULT NULL, INOUT total numeric DEFAULT NULL)
LANGUAGE plpgsql AS $$
DECLARE
    v_items integer[];
    v_supply integer[];
    v_quantity integer[];
    v_count integer;
    v_local integer := 1;
    v_w_tax numeric;
    v_d_tax numeric;
    v_discount numeric;
    v_price numeric;
    v_stock integer;
    v_dist char(24);
    v_amount numeric;
    v_sum numeric := 0;
BEGIN
    SELECT array_agg(split_part(line, ':', 1)::integer ORDER BY n),
           array_agg(split_part(line, ':', 2)::integer ORDER BY n),
           array_agg(split_part(line, ':', 3)::integer ORDER BY n),
           count(*), min((split_part(line, ':', 2)::integer = p_w)::integer)
        INTO v_items, v_supply, v_quantity, v_count, v_local
        FROM unnest(string_to_array(p_lines, ',')) WITH ORDINALITY AS t (line, n);
    SELECT w_tax, c_discount INTO STRICT v_w_tax, v_discount
        FROM warehouse, customer
        WHERE w_id = p_w AND c_w_id = p_w AND c_d_id = p_d AND c_id = p_c;
    UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = p_w AND d_id = p_d
        RETURNING d_next_o_id - 1, d_tax INTO STRICT o_id, v_d_tax;
    INSERT INTO orders VALUES (p_w, p_d, o_id, p_c, p_now, NULL, v_count, v_local);
    INSERT INTO new_order VALUES (p_w, p_d, o_id);
    FOR n IN 1 .. v_count LOOP
        SELECT i_price INTO v_price FROM item WHERE i_id = v_items[n];
        IF NOT FOUND THEN
            RAISE EXCEPTION 'Item number is not valid' USING ERRCODE = 'P0002';
        END IF;
        UPDATE stock SET
            s_quantity = CASE WHEN s_quantity >= v_quantity[n] + 10
                THEN s_quantity - v_quantity[n] ELSE s_quantity - v_quantity[n] + 91 END,
            s_ytd = s_ytd + v_quantity[n],
            s_order_cnt = s_order_cnt + 1,
            s_remote_cnt = s_remote_cnt + (v_supply[n] <> p_w)::integer
            WHERE s_w_id = v_supply[n] AND s_i_id = v_items[n]
            RETURNING s_quantity, CASE p_d WHEN 1 THEN s_dist_01 WHEN 2 THEN s_dist_02 WHEN 3 THEN s_dist_03
                WHEN 4 THEN s_dist_04 WHEN 5 THEN s_dist_05 WHEN 6 THEN s_dist_06 WHEN 7 THEN s_dist_07
                WHEN 8 THEN s_dist_08 WHEN 9 THEN s_dist_09 ELSE s_dist_10 END
            INTO STRICT v_stock, v_dist;
        v_amount := v_quantity[n] * v_price;
        v_sum := v_sum + v_amount;
        INSERT INTO order_line VALUES
            (p_w, p_d, o_id, n, v_items[n], v_supply[n], NULL, v_quantity[n], v_amount, v_dist);
    END LOOP;
    total := round(v_sum * (1 - v_discount) * (1 + v_w_tax + v_d_tax), 2);
END $$;

CREATE OR REPLACE PROCEDURE payment(
    p_w integer, p_d integer, p_c_w integer, p_c_d integer, p_c integer, p_c_last text,
    p_amount numeric, p_history bigint, p_now timestamp,
    INOUT c_id integer DEFAULT NULL, INOUT c_balance numeric DEFAULT NULL)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_id integer := p_c;
    v_balance numeric;
    v_credit char(2);
    v_w_name text;
    v_d_name text;
BEGIN
    UPDATE warehouse SET w_ytd = w_ytd + p_amount WHERE w_id = p_w RETURNING w_name INTO STRICT v_w_name;
    UPDATE district SET d_ytd = d_ytd + p_amount WHERE d_w_id = p_w AND d_id = p_d
        RETURNING d_name INTO STRICT v_d_name;
    IF p_c_last IS NOT NULL THEN
        SELECT c_id INTO STRICT v_id FROM customer
            WHERE c_w_id = p_c_w AND c_d_id = p_c_d AND c_last = p_c_last
            ORDER BY c_first, c_id
            LIMIT 1 OFFSET ((SELECT count(*) FROM customer
                WHERE c_w_id = p_c_w AND c_d_id = p_c_d AND c_last = p_c_last) - 1) / 2;
    END IF;
    UPDATE customer SET
        c_balance = c_balance - p_amount,
        c_ytd_payment = c_ytd_payment + p_amount,
        c_payment_cnt = c_payment_cnt + 1,
        c_data = CASE WHEN c_credit = 'BC' THEN
            substr(concat_ws(' ', v_id, p_c_d, p_c_w, p_d, p_w, p_amount) || '|' || c_data, 1, 500)
            ELSE c_data END
        WHERE c_w_id = p_c_w AND c_d_id = p_c_d AND c_id = v_id
        RETURNING c_balance INTO STRICT v_balance;
    INSERT INTO history VALUES (p_w, p_history, p_d, p_c_w, p_c_d, v_id, p_now, p_amount,
        v_w_name || '    ' || v_d_name);
    payment.c_id := v_id;
    payment.c_balance := v_balance;
END $$;

CREATE OR REPLACE PROCEDURE order_status(
    p_w integer, p_d integer, p_c integer, p_c_last text,
    INOUT c_id integer DEFAULT NULL, INOUT c_balance numeric DEFAULT NULL,
    INOUT o_id integer DEFAULT NULL, INOUT lines integer DEFAULT NULL)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_id integer := p_c;
    v_balance numeric;
    v_order integer;
    v_carrier integer;
    v_entered timestamp;
    v_line record;
    v_lines integer := 0;
BEGIN
    IF p_c_last IS NOT NULL THEN
        SELECT c_id INTO STRICT v_id FROM customer
            WHERE c_w_id = p_w AND c_d_id = p_d AND c_last = p_c_last
            ORDER BY c_first, c_id
            LIMIT 1 OFFSET ((SELECT count(*) FROM customer
                WHERE c_w_id = p_w AND c_d_id = p_d AND c_last = p_c_last) - 1) / 2;
    END IF;
    SELECT c_balance INTO STRICT v_balance FROM customer
        WHERE c_w_id = p_w AND c_d_id = p_d AND c_id = v_id;
    SELECT o_id, o_carrier_id, o_entry_d INTO STRICT v_order, v_carrier, v_entered FROM orders
        WHERE o_w_id = p_w AND o_d_id = p_d AND o_c_id = v_id ORDER BY o_id DESC LIMIT 1;
    FOR v_line IN SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line
        WHERE ol_w_id = p_w AND ol_d_id = p_d AND ol_o_id = v_order
    LOOP
        v_lines := v_lines + 1;
    END LOOP;
    order_status.c_id := v_id;
    order_status.c_balance := v_balance;
    order_status.o_id := v_order;
    order_status.lines := v_lines;
END $$;

CREATE OR REPLACE PROCEDURE delivery(
    p_w integer, p_carrier integer, p_now timestamp, INOUT delivered integer DEFAULT NULL)
LANGUAGE plpgsql AS $$
DECLARE
    v_order integer;
    v_customer integer;
    v_amount numeric;
BEGIN
    delivered := 0;
    FOR v_d IN 1 .. 10 LOOP
        DELETE FROM new_order WHERE no_w_id = p_w AND no_d_id = v_d AND no_o_id =
            (SELECT no_o_id FROM new_order WHERE no_w_id = p_w AND no_d_id = v_d
                ORDER BY no_o_id LIMIT 1 FOR UPDATE)
            RETURNING no_o_id INTO v_order;
        CONTINUE WHEN NOT FOUND;
        UPDATE orders SET o_carrier_id = p_carrier WHERE o_w_id = p_w AND o_d_id = v_d AND o_id = v_order
            RETURNING o_c_id INTO STRICT v_customer;
        UPDATE order_line SET ol_delivery_d = p_now
            WHERE ol_w_id = p_w AND ol_d_id = v_d AND ol_o_id = v_order;
        SELECT sum(ol_amount) INTO STRICT v_amount FROM order_line
            WHERE ol_w_id = p_w AND ol_d_id = v_d AND ol_o_id = v_order;
        UPDATE customer SET c_balance = c_balance + v_amount, c_delivery_cnt = c_delivery_cnt + 1
            WHERE c_w_id = p_w AND c_d_id = v_d AND c_id = v_customer;
        delivered := delivered + 1;
    END LOOP;
END $$;

CREATE OR REPLACE PROCEDURE stock_level(
    p_w integer, p_d integer, p_threshold integer, INOUT low_stock bigint DEFAULT NULL)
LANGUAGE plpgsql AS $$
DECLARE
    v_next integer;
BEGIN
    SELECT d_next_o_id INTO STRICT v_next FROM district WHERE d_w_id = p_w AND d_id = p_d;
    SELECT count(DISTINCT s_i_id) INTO low_stock FROM order_line, stock
        WHERE ol_w_id = p_w AND ol_d_id = p_d AND ol_o_id >= v_next - 20 AND ol_o_id < v_next
            AND s_w_id = p_w AND s_i_id = ol_i_id AND s_quantity < p_threshold;
END $$;
