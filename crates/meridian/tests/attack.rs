//! The generators of hostile input, a few seconds each, against the command itself: the process goes on, speaks the
//! protocol and greets whoever comes next; what else was found is printed. For hours: `cargo run -p attack -- --hours 2`.

use attack::args::{launch, read_corpus};
use attack::drive::{Options, Where, run};
use attack::generate::Generator;
use attack::judge::{Kind, Patience};
use attack::report::Summary;
use std::path::Path;
use std::time::Duration;

const QUERY_MEMORY_MIB: u64 = 64;
/// Unoptimised code, three regions, and other tests beside it.
const ALLOWANCE_MIB: u64 = 512;

/// What no machine is slow enough for. Late answers, and other sessions that wait or whose statements run into their
/// timeouts, are printed with the latencies: a run by hand, on a quiet machine, fails on all of it.
const FAILS: &[Kind] = &[
    Kind::Exit,
    Kind::Internal,
    Kind::Lost,
    Kind::Malformed,
    Kind::Memory,
    Kind::Panic,
    Kind::Reveals,
    Kind::Silence,
];

#[tokio::test(flavor = "multi_thread")]
async fn hostile_input_stops_nobody() {
    let folder = std::env::temp_dir().join(format!("meridian-attack-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../attack/corpus");
    let (limit_bytes, allowance_bytes) = (QUERY_MEMORY_MIB << 20, ALLOWANCE_MIB << 20);
    let program = env!("CARGO_BIN_EXE_meridian").into();
    let log = folder.join("server.log");
    let options = Options {
        target: Where::Start(launch(program, QUERY_MEMORY_MIB, &[], log, limit_bytes + allowance_bytes)),
        seed: 1,
        connections: 3,
        generators: Generator::ALL.to_vec(),
        duration: Duration::ZERO,
        slice: Duration::from_secs(4),
        quiet: Duration::from_secs(2),
        // CI's machine is slow and shared: only what is grossly wrong fails here.
        patience: Patience {
            statement: Duration::from_secs(1),
            grace: Duration::from_secs(15),
            ceiling: Duration::from_secs(25),
        },
        stall: Duration::from_secs(5),
        limit_bytes,
        allowance_bytes,
        corpus: read_corpus(&corpus).unwrap(),
        findings: Some(folder.clone()),
        confirm: false,
    };
    let summary = run(options).await.unwrap();
    println!("{summary}");
    check(&summary);
    std::fs::remove_dir_all(folder).unwrap();
}

fn check(summary: &Summary) {
    assert_eq!(summary.driver_panics, 0, "tasks of the attack itself panicked");
    for generator in Generator::ALL {
        let row = summary.rows.get(generator.name());
        assert!(row.is_some_and(|r| r.answered > 0), "{generator:?} threw nothing");
    }
    let wrong: Vec<String> = summary
        .findings
        .iter()
        .filter(|f| FAILS.contains(&f.kind))
        .map(|f| format!("{}: {}: {}\n{}", f.kind.name(), f.shape, f.said, f.input))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
