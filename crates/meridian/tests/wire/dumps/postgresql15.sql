--
-- PostgreSQL database dump
--


-- Dumped from database version 15.18 (Debian 15.18-0+deb12u1)
-- Dumped by pg_dump version 15.18 (Debian 15.18-0+deb12u1)

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

--
-- Name: other; Type: SCHEMA; Schema: -; Owner: -
--

CREATE SCHEMA other;


--
-- Name: mood; Type: TYPE; Schema: public; Owner: -
--

CREATE TYPE public.mood AS ENUM (
    'sad',
    'low',
    'o''k',
    'happy'
);


--
-- Name: renoted(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.renoted() RETURNS trigger
    LANGUAGE plpgsql
    AS $$ BEGIN NEW.note := TG_ARGV[0] || NEW.name; RETURN NEW; END $$;


SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: plain; Type: TABLE; Schema: other; Owner: -
--

CREATE TABLE other.plain (
    a integer,
    b text
);


--
-- Name: customers; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.customers (
    id integer NOT NULL,
    name character varying(40) NOT NULL,
    born date,
    balance numeric(12,2) DEFAULT 0,
    note text,
    CONSTRAINT customers_balance_check CHECK ((balance >= (0)::numeric))
);


--
-- Name: TABLE customers; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON TABLE public.customers IS 'who buys';


--
-- Name: COLUMN customers.note; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON COLUMN public.customers.note IS 'free ''text''';


--
-- Name: customers_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.customers_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: customers_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.customers_id_seq OWNED BY public.customers.id;


--
-- Name: free; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.free
    START WITH 10
    INCREMENT BY 5
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: feels; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.feels (
    id integer NOT NULL,
    m public.mood DEFAULT 'low'::public.mood,
    CONSTRAINT feels_m_check CHECK ((m <> 'sad'::public.mood))
);


--
-- Name: orders; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.orders (
    id bigint NOT NULL,
    customer integer NOT NULL,
    at timestamp with time zone DEFAULT now(),
    data bytea,
    u uuid,
    ok boolean,
    f double precision,
    c character(3)
);


--
-- Name: orders_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

ALTER TABLE public.orders ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.orders_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: rich; Type: VIEW; Schema: public; Owner: -
--

CREATE VIEW public.rich AS
 SELECT customers.id,
    customers.name
   FROM public.customers
  WHERE (customers.balance > (100)::numeric);


--
-- Name: customers id; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.customers ALTER COLUMN id SET DEFAULT nextval('public.customers_id_seq'::regclass);


--
-- Data for Name: plain; Type: TABLE DATA; Schema: other; Owner: -
--

COPY other.plain (a, b) FROM stdin;
1	x
2	\N
\.


--
-- Data for Name: customers; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.customers (id, name, born, balance, note) FROM stdin;
1	ann	1990-01-02	500.00	tab\there\nnew \\ line
2	bob	\N	3.50	\N
\.


--
-- Data for Name: feels; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.feels (id, m) FROM stdin;
1	happy
2	o'k
\.


--
-- Data for Name: orders; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.orders (id, customer, at, data, u, ok, f, c) FROM stdin;
1	1	2024-02-03 04:05:06.789+00	\\xdeadbeef	a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11	t	1.5	ab 
2	2	2024-01-01 00:00:00+00	\N	\N	\N	NaN	\N
\.


--
-- Name: customers_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.customers_id_seq', 2, true);


--
-- Name: free; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.free', 15, true);


--
-- Name: orders_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.orders_id_seq', 2, true);


--
-- Name: customers customers_name_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.customers
    ADD CONSTRAINT customers_name_key UNIQUE (name);


--
-- Name: customers customers_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.customers
    ADD CONSTRAINT customers_pkey PRIMARY KEY (id);


--
-- Name: feels feels_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.feels
    ADD CONSTRAINT feels_pkey PRIMARY KEY (id);


--
-- Name: orders orders_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.orders
    ADD CONSTRAINT orders_pkey PRIMARY KEY (id);


--
-- Name: customers_lower; Type: INDEX; Schema: public; Owner: -
--

CREATE UNIQUE INDEX customers_lower ON public.customers USING btree (lower((name)::text)) WHERE ((balance > (0)::numeric) AND (note IS DISTINCT FROM 'gone'::text));


--
-- Name: customers_sum; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX customers_sum ON public.customers USING btree (((balance + (id)::numeric)) DESC, lower(((name)::text || 'x'::text))) INCLUDE (born) WHERE ((name)::text = ANY ((ARRAY['a'::character varying, 'b'::character varying])::text[]));


--
-- Name: orders_customer; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX orders_customer ON public.orders USING btree (customer);


--
-- Name: customers renoted; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER renoted BEFORE INSERT OR UPDATE OF name ON public.customers FOR EACH ROW WHEN ((new.note IS NULL)) EXECUTE FUNCTION public.renoted('it''s ');


--
-- Name: TRIGGER renoted ON customers; Type: COMMENT; Schema: public; Owner: -
--

COMMENT ON TRIGGER renoted ON public.customers IS 'why';


--
-- Name: customers silent; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER silent AFTER DELETE ON public.customers FOR EACH STATEMENT EXECUTE FUNCTION public.renoted();

ALTER TABLE public.customers DISABLE TRIGGER silent;


--
-- Name: orders orders_customer_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.orders
    ADD CONSTRAINT orders_customer_fkey FOREIGN KEY (customer) REFERENCES public.customers(id) ON DELETE CASCADE;


--
-- PostgreSQL database dump complete
--


