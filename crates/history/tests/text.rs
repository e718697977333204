//! Scenario text: what is accepted, and what a wrong line is told.

use history::{Guarantee, History, Recorder, Seen, SessionId, check};

#[track_caller]
fn refuse(text: &str, expected: &str) {
    let error = text.parse::<History>().unwrap_err();
    assert_eq!(error.to_string(), expected);
}

#[test]
fn text_and_recorder_build_the_same_history() {
    let text = "load x
txn t0 s1 [0,10] r(x)=0 w(x)=1
txn t1 s2 [3,?] d(y)
txn t2 s2 [5,9] aborted s(a..n)={b:0,l:[4,5]} a(l)=6
txn t3 s3 [12,20] after=t0,t1 r(x)=1 r(z%20)=- s(b..)={} s(..)={x:1}
";
    let parsed: History = text.parse().unwrap();
    assert_eq!(parsed.to_string(), text);

    let mut recorder = Recorder::new();
    recorder.loaded("x");
    let t0 = recorder.begin(SessionId(1), 0);
    recorder.read(t0, "x", 0);
    recorder.write(t0, "x", 1);
    let t1 = recorder.begin(SessionId(2), 3);
    recorder.delete(t1, "y");
    recorder.commit(t0, 10);
    let t2 = recorder.begin(SessionId(2), 5);
    recorder.scan(t2, "a", Some("n"), [("b", Seen::Initial), ("l", Seen::List(vec![4, 5]))]);
    recorder.append(t2, "l", 6);
    recorder.abort(t2, 9);
    let t3 = recorder.begin(SessionId(3), 12);
    recorder.token(t3, t0);
    recorder.token(t3, t1);
    recorder.read(t3, "x", 1);
    recorder.read_absent(t3, "z ");
    recorder.scan(t3, "b", None, []);
    recorder.scan(t3, "", None, [("x", Seen::Value(1))]);
    recorder.commit(t3, 20);
    assert_eq!(recorder.finish().to_string(), text);
}

#[test]
fn comments_and_blank_lines_are_free() {
    let history: History = "# nothing\n\n  txn t1 s1 [0,1] w(x)=1 # one\n".parse().unwrap();
    assert_eq!(history.ops().len(), 1);
    assert!(check(&history, Guarantee::StrictSerializable).is_ok());
}

#[test]
fn wrong_lines_are_named_with_a_reason() {
    refuse("t1 s1 [0,1]", "line 1: a line starts with `txn` or `load`, not `t1`");
    refuse("\ntxn", "line 2: a transaction has a name");
    refuse("txn t1 one [0,1]", "line 1: a session is `s1`, not `one`");
    refuse("txn t1 s1 0-1", "line 1: an interval is `[0,10]` or `[0,?]`, not `0-1`");
    refuse("txn t1 s1 [5,1]", "line 1: answered at 1, invoked at 5");
    refuse("txn t1 s1 [5,x]", "line 1: `x` is not a number");
    refuse("txn t1 s1 [0,?] aborted", "line 1: an unanswered transaction is not known to be aborted");
    refuse("txn t1 s1 [5,6]\ntxn t2 s1 [4,6]", "line 2: invoked at 4, before its predecessor (5)");
    refuse("txn t1 s1 [5,6]\ntxn t1 s1 [7,8]", "line 2: `t1` is already taken");
    refuse("txn t1 s1 [0,1] after=t2", "line 1: no earlier transaction `t2`");
    refuse("txn t1 s1 [0,1] after=t1", "line 1: a token comes from an earlier transaction");
    refuse("txn t1 s1 [0,1] w(x)=0", "line 1: value 0 of x stands for its initial state");
    refuse("txn t1 s1 [0,1] w(x)=1 w(x)=1", "line 1: value 1 of x is written twice");
    refuse("txn t1 s1 [0,1] w(x)=1 a(x)=2", "line 1: x is both a register and a list");
    refuse("txn t1 s1 [0,1] s(b..a)={}", "line 1: b..a is an empty range");
    refuse("txn t1 s1 [0,1] r(x%2)=1", "line 1: `x%2`: % is followed by two hex digits");
    let shapes = "is none of r(x)=1 r(l)=[1,2] w(x)=1 a(l)=1 d(x) s(a..b)={x:1}";
    for word in ["r(x)", "q(x)=1", "d(x)=1", "w x", "s(a)={}", "s(a..b)=1", "s(a..b)={x}"] {
        let word = word.replace(' ', "");
        refuse(&format!("txn t1 s1 [0,1] {word}"), &format!("line 1: `{word}` {shapes}"));
    }
}
